"""How slow an emulated accelerator must run for this model on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from prescope.formulation import CostModel
from prescope.runtime.backends.cpu import CpuOptions, Probe, calibrate, copy_probe
from prescope.runtime.plugin.expert_math import ExpertInput, run_expert
from prescope.runtime.plugin.moe_layers import MoeLayer
from prescope.runtime.store import HostStore

# A decode step of one row, and a prompt or a large batch.
_TOKENS = (1, 128)


def slow_motion_options(
    model: Any, layers: tuple[MoeLayer, ...], store: HostStore, costs: CostModel, *, seed: int
) -> CpuOptions:
    """Measure copies, experts and dense work of a model, and choose the dilation that leaves room for them.

    Parameters
    ----------
    model, layers
        The model; its experts are in ``store`` already.
    store, costs
        Real weights and modelled durations.
    seed
        Seed of the random inputs.
    """
    generator = torch.Generator().manual_seed(seed)
    probes = [copy_probe(store, costs)]
    for tokens in _TOKENS:
        probes += _expert_probes(layers[0].experts, store, costs, tokens, generator)
        probes.append(_dense_probe(model, layers, costs, tokens, generator))
    with torch.no_grad(), _without_experts(layers):
        return CpuOptions(dilation=calibrate(probes).dilation)


def _expert_probes(
    module: Any, store: HostStore, costs: CostModel, tokens: int, generator: torch.Generator
) -> list[Probe]:
    weights = store.views(0, store.row(0, 0))
    size = weights["gate_up_proj"].shape[1]
    work = ExpertInput(
        rows=torch.arange(tokens),
        hidden=torch.randn(tokens, size, generator=generator).to(store.dtype),
        scale=torch.ones(tokens, 1, dtype=store.dtype),
    )
    times = {"gpu": costs.gpu_ns(0, tokens), "cpu": costs.cpu_ns(0, tokens)}
    return [
        Probe(kind=kind, modelled_ns=modelled_ns, run=lambda: _drop(run_expert(module, weights, work)))
        for kind, modelled_ns in times.items()
        # A side that does nothing in this cost model needs no room.
        if modelled_ns > 0
    ]


def _dense_probe(
    model: Any, layers: tuple[MoeLayer, ...], costs: CostModel, tokens: int, generator: torch.Generator
) -> Probe:
    ids = torch.randint(model.config.vocab_size, (1, tokens), generator=generator)
    modelled_ns = sum(costs.dense_ns(layer, tokens) for layer in range(len(layers)))
    return Probe(
        kind="dense",
        modelled_ns=max(1, modelled_ns),
        run=lambda: _drop(model.base_model(input_ids=ids, use_cache=False)),
    )


def _drop(result: object) -> None:
    """Forget a result whose making was all that mattered."""


@contextmanager
def _without_experts(layers: tuple[MoeLayer, ...]) -> Iterator[None]:
    """Let the experts modules return zeros, so that a forward pass is its dense work alone."""
    try:
        for layer in layers:
            object.__setattr__(layer.experts, "forward", lambda hidden, *_: torch.zeros_like(hidden))
        yield
    finally:
        for layer in layers:
            vars(layer.experts).pop("forward", None)
