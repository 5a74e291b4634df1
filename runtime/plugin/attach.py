"""Attach an engine to a transformers model."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from torch import nn

from prescope.formulation import CostModel, Tier
from prescope.formulation.demand import FloatArray
from prescope.instances import CostFile
from prescope.predictor import Predictor
from prescope.runtime.plugin import request
from prescope.runtime.plugin.engine import Engine
from prescope.runtime.plugin.load.link import store_of
from prescope.runtime.plugin.memory_tier import serve_from_memory
from prescope.runtime.plugin.moe_layers import AttachError, check_supported, expert_bytes, moe_layers
from prescope.runtime.plugin.placement import divide_budget, residents_of_budget
from prescope.runtime.plugin.recording import gates_fingerprint
from prescope.runtime.plugin.retention import resolve_retention
from prescope.runtime.plugin.settings import EngineSettings
from prescope.solver.residency import GateRule

DEFAULT_PRESET = "qwen3-30b-a3b@a100-pcie4"


def attach(
    model: Any,
    expert_memory: str | int,
    *,
    policy: str = "dp",
    predictor: str | Predictor | None = None,
    backend: str | None = None,
    preset: str | None = None,
    costs: str | os.PathLike[str] | CostFile | CostModel | None = None,
    slots: int | None = None,
    lookahead: int | None = None,
    retention: str | GateRule | None = None,
    residency: str | None = None,
    popularity: FloatArray | None = None,
    seed: int = 0,
    record: request.Recording = False,
    backend_options: Any = None,
) -> Engine:
    """Take over where and when a model's experts run; what they compute stays the same.

    The experts move to one host store (the modules keep meta tensors), the most popular ones are pinned in
    device memory at first, the others are copied, prefetched or computed on the host as ``policy`` decides at
    every gate. `Engine.detach`, or leaving a ``with`` block, restores the model bit for bit.

    A model made by `prescope.load` keeps its experts on disk instead; then the memory granted is one pool of
    rows, every missing expert is read into it, and all times are measured.

    Parameters
    ----------
    model
        A transformers model of a supported family (Qwen3-MoE, Mixtral, OLMoE) in host memory, for inference.
    expert_memory
        Device memory for experts, in bytes of this model: ``"4GiB"`` or a number.
    policy
        ``"on-demand"``, ``"cpu-only"``, ``"intra-layer"``, ``"presched"``, ``"dp"``
        or ``"expected"``; with an oracle as
        predictor any method of `prescope.solver.methods`.
    predictor
        A name of `prescope.predictor.predictors`, or an object; ``None`` is ``"stale-gate"``, which needs
        no training.
    backend
        ``"cpu"`` emulates an accelerator in slow motion on worker threads, ``"sim"`` runs in virtual time,
        ``"disk"`` serves experts on disk; ``None`` is ``"cpu"``, or ``"disk"`` for experts on disk.
    preset
        Cost model ``"model@machine"`` that decides and emulates, whatever the real model's size.
    costs
        A measured cost model instead: the file that ``prescope profile`` wrote, or a `CostModel`.
    slots
        Buffers for copies; ``None`` takes a quarter of the memory, at most 48.
    lookahead
        How many layers ahead copies may be issued; ``None`` is 4, or all layers where demand is known. For
        experts on disk it is 1, or 2 with policy ``"expected"``, and 0 where a measured read takes less time
        than a forecast.
    retention
        Rule by which residents change from step to step, for experts in memory: what was brought in takes the
        place of a resident of its layer that is worth less, and nothing is copied for it.
        ``"moving-average"``, ``"learned"``, ``"learned:TRACE"`` (fitted to recorded routing first),
        ``"lru"``, ``"lfu"``, ``"static"`` (nobody moves), or a rule
        (`prescope.solver.residency.GateRule`); ``None`` is ``"moving-average"``, which leaves everybody in
        place from 16 sequences on.
    residency
        Rule by which a pool keeps its contents, for experts on disk: see
        `prescope.runtime.control.residency.residencies`; ``None`` is ``"moving-average"``. For experts in
        memory ``"pinned"`` is retention ``"static"``.
    popularity
        Share of each expert, ``[layers, experts]``, that chooses the pinned ones and starts the predictor;
        ``None`` measures it in one pass over random tokens (uniform for experts on disk).
    seed
        Seed of that pass and of the solver.
    record
        Keep the routing for `Engine.routing` and `Engine.step_counts`; ``"hidden"`` keeps gating inputs too.
    backend_options
        As for `prescope.runtime.open_backend`; ``None`` measures how slow the slow motion must be.

    Raises
    ------
    AttachError
        When anything asked for cannot be honoured; nothing has changed then.
    """
    if not isinstance(model, nn.Module):
        raise AttachError(f"expected a transformers model, got {type(model).__name__}")
    layers = moe_layers(model)
    store = store_of(model)
    check_supported(model, layers, on_disk=store is not None)
    if store is not None:
        if retention is not None:
            raise AttachError(
                f"expected retention for experts in memory, got {retention!r} for experts on disk: name the "
                "rule of their pool with residency"
            )
        from prescope.runtime.plugin.disk_tier import serve_from_disk

        return serve_from_disk(
            model,
            layers,
            store,
            expert_memory=expert_memory,
            policy=policy,
            predictor=predictor,
            backend=backend,
            preset=preset,
            costs=costs,
            slots=slots,
            lookahead=lookahead,
            residency=residency,
            popularity=popularity,
            seed=seed,
            record=record,
            backend_options=backend_options,
        )
    backend = "cpu" if backend is None else backend
    request.check_choices(backend, record)
    if backend == "disk":
        raise AttachError(
            "expected experts on disk for backend 'disk', got a model that holds them: use prescope.load"
        )
    if residency not in (None, "pinned"):
        raise AttachError(
            f"expected residency 'pinned' for experts in memory, got {residency!r}: name their rule with "
            "retention"
        )
    if residency is not None:
        if retention not in (None, "static"):
            raise AttachError(
                f"expected residents that are pinned or change, got retention {retention!r} too"
            )
        retention = "static"
    count, experts, row_bytes = expert_bytes(model)
    found = request.resolve_costs(model, costs, preset or DEFAULT_PRESET, layers=count, tier=Tier.RAM)
    budget_bytes = request.resolve_budget(expert_memory)
    pinned, buffers = divide_budget(
        budget_bytes, row_bytes=row_bytes, layers=count, experts=experts, slots=slots
    )
    if not found.host_computes and buffers == 0 and pinned < count * experts:
        raise AttachError("expected slots >= 1 where the host cannot compute, got 0")
    shares = request.resolve_popularity(
        popularity,
        (count, experts),
        partial(request.random_token_popularity, model, layers, experts, seed),
    )
    chosen = request.resolve_predictor(predictor, layers, shares)
    residents = residents_of_budget(shares, pinned)
    kept = resolve_retention(
        retention,
        shares=shares,
        top_k=layers[0].router.top_k,
        costs=found.costs,
        host_computes=found.host_computes,
        residents=residents,
        slots=buffers,
        background=backend != "sim",
        fingerprint=gates_fingerprint(layers),
    )
    settings = EngineSettings(
        policy=policy,
        gate_policy=request.resolve_policy(policy, chosen),
        costs=found.costs,
        preset=found.name,
        tier=found.tier,
        host_computes=found.host_computes,
        experts=experts,
        residents=residents,
        slots=buffers,
        lookahead=request.resolve_lookahead(lookahead, chosen, count),
        residency="pinned" if kept is None else kept.rule.name,
        expert_memory_bytes=budget_bytes,
        seed=seed,
    )
    return serve_from_memory(
        model,
        layers,
        settings=settings,
        predictor=chosen,
        backend=backend,
        backend_options=backend_options,
        record=record,
        retention=kept,
    )
