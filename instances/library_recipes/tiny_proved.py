"""Set ``tiny-proved``: small enough that CP-SAT proves the optimum over all plans."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from prescope.formulation import Demand, Instance
from prescope.instances.batches import popularity
from prescope.instances.builders import build_instances
from prescope.instances.instance_file import InstanceFile
from prescope.instances.library_recipes.sources import tiny_instances
from prescope.instances.provenance import Provenance
from prescope.instances.synthetic_routing import ROUTING_GENERATOR, fitted_recipe, synthetic_trace

_RECIPE = "gptoss-20b"
# Layers, experts, top-k.
_SHAPES = ((3, 3, 1), (3, 4, 2), (4, 4, 2), (4, 6, 2), (6, 4, 2), (5, 8, 2), (8, 8, 2), (10, 5, 2))
# Costs, batch, slots, lookahead (None: known from the start), share of residents.
_CASES: tuple[tuple[str, int, int, int | None, float], ...] = (
    ("mixtral-8x7b@a100-pcie4", 1, 2, None, 0.25),
    ("qwen3-30b-a3b@h100-pcie5", 2, 2, 1, 0.0),
    ("gpt-oss-20b@rtx4090-desktop", 3, 3, 2, 0.25),
    ("deepseek-v2-lite@v100-pcie3", 4, 1, None, 0.25),
    ("mixtral-8x7b@nvme-ram", 2, 2, None, 0.5),
)
_REAL_LAYERS = (3, 4, 5, 6)
_REAL_MACHINES = ("a100-pcie4", "nvme-ram")


def tiny_proved_set() -> Iterator[InstanceFile]:
    """Every shape in every case, and the first layers of the tiny real model's steps."""
    for layers, experts, top_k in _SHAPES:
        for costs, batch, slots, ahead, resident in _CASES:
            yield from _synthetic(layers, experts, top_k, costs, batch, slots, ahead, resident)
    for machine in _REAL_MACHINES:
        for number, file in enumerate(tiny_instances(machine, 1, steps=len(_REAL_LAYERS))):
            yield first_layers(file, _REAL_LAYERS[number])


def _synthetic(
    layers: int,
    experts: int,
    top_k: int,
    costs: str,
    batch: int,
    slots: int,
    ahead: int | None,
    resident: float,
) -> Iterator[InstanceFile]:
    model = costs.partition("@")[0]
    trace = synthetic_trace(
        fitted_recipe(_RECIPE),
        model=f"{layers}x{experts}",
        layers=layers,
        experts=experts,
        top_k=top_k,
        sequences=8,
        prompt_tokens=0,
        decode_tokens=4,
        seed=0,
    )
    for file in build_instances(
        trace,
        costs,
        batch,
        slots=slots,
        lookahead=ahead,
        resident_fraction=resident,
        # Residents by the first four sequences, the batch from the others.
        resident_popularity=popularity(trace, rows=np.arange(4 * 4)),
        sequences=range(4, 8),
        limit=1,
        name=f"{layers}x{experts}-{costs}-n{slots}" + ("" if ahead is None else f"-w{ahead}"),
    ):
        provenance = Provenance(
            source=file.provenance.source,
            generator=ROUTING_GENERATOR,
            seed=0,
            notes=f"{file.provenance.notes}; costs of {model}",
        )
        yield replace(file, provenance=provenance)


def first_layers(file: InstanceFile, layers: int) -> InstanceFile:
    """The problem that a batch's first layers are by themselves."""
    whole = file.instance
    if len(whole.costs.gpu) != 1:
        raise ValueError(f"expected one time curve for all layers, got {len(whole.costs.gpu)}")
    costs = replace(whole.costs, expert_bytes=whole.costs.expert_bytes[:layers])
    demand = Demand(counts=whole.demand.counts[:layers], batch_tokens=whole.demand.batch_tokens)
    instance: Instance = replace(
        whole,
        name=f"{whole.name}-l{layers}",
        costs=costs,
        demand=demand,
        residents=whole.residents[:layers],
        lookahead=min(whole.lookahead, layers),
    )
    provenance = replace(file.provenance, notes=f"{file.provenance.notes}; the first {layers} layers only")
    return InstanceFile(instance=instance, provenance=provenance)
