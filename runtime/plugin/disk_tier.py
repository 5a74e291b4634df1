"""Serving experts that stay on disk: one pool of rows in memory, every missing expert read into it."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from prescope.formulation import CostModel, ModelShape, Tier, format_bytes
from prescope.formulation.demand import FloatArray
from prescope.formulation.presets import shape_on_machine
from prescope.instances import CostFile
from prescope.instances.cost_file import COSTS_NAME
from prescope.predictor import Oracle, Predictor
from prescope.runtime.arena import DeviceArena, arena_bytes
from prescope.runtime.backends import open_backend
from prescope.runtime.backends.disk import DiskOptions
from prescope.runtime.builder import ProgramBuilder
from prescope.runtime.control.pool import RowPool
from prescope.runtime.control.residency import make_residency, residencies
from prescope.runtime.plugin import request
from prescope.runtime.plugin.engine import Engine
from prescope.runtime.plugin.moe_layers import AttachError, MoeLayer
from prescope.runtime.plugin.new_step import PooledStepFactory
from prescope.runtime.plugin.serving import Serving
from prescope.runtime.plugin.settings import EngineSettings
from prescope.runtime.profile.drift import DriftMonitor
from prescope.runtime.stepper import Stepper
from prescope.solver.online import ExpectedPolicy

if TYPE_CHECKING:
    from prescope.runtime.disk import DiskStore

DEFAULT_RESIDENCY = "moving-average"
_MACHINE = "nvme-ram"
_DEPTH = 4
# Chosen on validation streams (benchmarks/disk_tier.py): farther forecasts cost deciding and wasted reads.
_LOOKAHEAD = 1
# Policy `expected` reads for farther layers what nearer ones leave room for (benchmarks/disk_expected.py).
_EXPECTED_LOOKAHEAD = 2
# Forecasting a layer takes a few tenths of a millisecond: what is read faster is not worth one.
_FORECAST_NS = 250_000


def serve_from_disk(
    model: Any,
    layers: tuple[MoeLayer, ...],
    store: DiskStore,
    *,
    expert_memory: str | int,
    policy: str,
    predictor: str | Predictor | None,
    backend: str | None,
    preset: str | None,
    costs: str | os.PathLike[str] | CostFile | CostModel | None,
    slots: int | None,
    lookahead: int | None,
    residency: str | None,
    popularity: FloatArray | None,
    seed: int,
    record: request.Recording,
    backend_options: Any,
) -> Engine:
    """Start an engine over a disk store; see `prescope.attach` for the arguments.

    Raises
    ------
    AttachError
        When anything asked for cannot be honoured.
    """
    request.check_choices(backend or "disk", record)
    if backend not in (None, "disk"):
        raise AttachError(f"expected backend 'disk' for experts on disk, got {backend!r}")
    if slots is not None:
        raise AttachError(f"expected no slots for experts on disk (all memory is one pool), got {slots}")
    rows, budget_bytes = _rows(store, expert_memory)
    found = _costs(model, layers, store, costs, preset)
    top_k = int(layers[0].router.top_k)
    shape = (store.layers, store.experts)
    shares = request.resolve_popularity(popularity, shape, lambda: np.full(shape, top_k / store.experts))
    chosen = request.resolve_predictor(predictor, layers, shares)
    if isinstance(chosen, Oracle):
        raise AttachError("expected a predictor other than 'oracle' for experts on disk, got it")
    depth = found.depth or _DEPTH
    rule = DEFAULT_RESIDENCY if residency is None else residency
    if rule not in residencies():
        raise AttachError(f"expected a residency among {', '.join(residencies())}, got {rule!r}")
    scratch = max(1, min(2 * depth, rows // 4))
    pool = RowPool(rows, make_residency(rule, shares, rows=rows, scratch=scratch))
    settings = EngineSettings(
        policy=policy,
        gate_policy=request.resolve_policy(policy, chosen),
        costs=found.costs,
        preset=found.name,
        tier=Tier.DISK,
        host_computes=False,
        experts=store.experts,
        residents=((),) * store.layers,
        slots=rows,
        lookahead=request.resolve_lookahead(
            _default_lookahead(policy, found) if lookahead is None else lookahead, chosen, store.layers
        ),
        residency=rule,
        expert_memory_bytes=budget_bytes,
        seed=seed,
    )
    options = backend_options or DiskOptions(depth=depth, compute_threads=found.threads)
    # The arena is written outside the caller's inference mode, by threads that know none.
    with torch.inference_mode(False):
        serving = _serving(store, settings, options)
    try:
        return Engine(
            model=model,
            layers=layers,
            serving=serving,
            predictor=chosen,
            settings=settings,
            factory=PooledStepFactory(settings, chosen, pool),
            # The modules held nothing, and the store is its opener's to close.
            restore=lambda: None,
            record=record,
            drift=DriftMonitor(),
        )
    except BaseException:
        serving.close()
        raise


def _default_lookahead(policy: str, found: request.Costs) -> int:
    measured = found.depth is not None
    if measured and found.costs.copy_ns(0) < _FORECAST_NS:
        return 0
    return _EXPECTED_LOOKAHEAD if policy == ExpectedPolicy.name else _LOOKAHEAD


def _serving(store: DiskStore, settings: EngineSettings, options: DiskOptions) -> Serving:
    builder = ProgramBuilder(
        costs=settings.costs,
        experts=store.experts,
        slots=settings.slots,
        residents=settings.residents,
        host_computes=False,
        carry=True,
    )
    arena = DeviceArena(
        store,
        residents=settings.residents,
        slots=settings.slots,
        budget_bytes=settings.expert_memory_bytes,
    )
    backend = open_backend("disk", store, arena, options)
    return Serving(store=store, arena=arena, backend=backend, stepper=Stepper(builder, backend))


def _rows(store: DiskStore, expert_memory: str | int) -> tuple[int, int]:
    budget_bytes = request.resolve_budget(expert_memory)
    row_bytes = arena_bytes(store, residents=((),) * store.layers, slots=1)
    if budget_bytes < row_bytes:
        raise AttachError(
            f"expected expert_memory of at least {format_bytes(row_bytes)} ({row_bytes} bytes), which is one "
            f"expert, got {format_bytes(budget_bytes)} ({budget_bytes} bytes)"
        )
    return min(budget_bytes // row_bytes, store.layers * store.experts), budget_bytes


def _costs(
    model: Any,
    layers: tuple[MoeLayer, ...],
    store: DiskStore,
    costs: str | os.PathLike[str] | CostFile | CostModel | None,
    preset: str | None,
) -> request.Costs:
    resolve = partial(request.resolve_costs, model, layers=store.layers, tier=Tier.DISK)
    if costs is not None or preset is not None:
        return resolve(costs, preset or "")
    measured = Path(store.checkpoint.files[0]).parent / COSTS_NAME
    if measured.is_file():
        return resolve(measured, "")
    return _assumed_costs(model, layers, store)


def _assumed_costs(model: Any, layers: tuple[MoeLayer, ...], store: DiskStore) -> request.Costs:
    """Costs of this model's shape with assumed constants, until somebody measures them."""
    dense = sum(weight.numel() for weight in model.parameters() if not weight.is_meta) // store.layers
    item_bytes = store.row_bytes(0) // store.elements(0)
    shape = ModelShape(
        name=str(model.config.model_type),
        moe_layers=store.layers,
        experts=store.experts,
        top_k=int(layers[0].router.top_k),
        expert_bytes=store.row_bytes(0),
        expert_params=store.elements(0),
        # Reading the dense weights of a layer from memory at 10 GB/s, and some hundred small operations.
        dense_ns=500_000 + dense * item_bytes // 10,
    )
    assumed = shape_on_machine(shape, _MACHINE, layers=None, source="the model's own shape (")
    return request.Costs(
        name=f"assumed for {assumed.name}", costs=assumed.costs, tier=Tier.DISK, host_computes=False
    )
