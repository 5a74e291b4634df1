"""Where the library's routing comes from: the tiny model's recording, fitted recipes, the Zipf recipe."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache

import numpy as np

from prescope.formulation import CostModel, model_shape
from prescope.formulation.demand import FloatArray
from prescope.instances.batches import popularity
from prescope.instances.builders import build_instances
from prescope.instances.instance_file import InstanceFile
from prescope.instances.library_index import library_root
from prescope.instances.provenance import Provenance
from prescope.instances.routing_trace import Phase, RoutingTrace
from prescope.instances.synthetic import GENERATOR, synthetic_instance, synthetic_settings
from prescope.instances.synthetic_routing import ROUTING_GENERATOR, fitted_recipe, synthetic_trace
from prescope.instances.trace_file import read_trace

RECORDING = "recordings/tiny-routing.npz"
TINY_COSTS = "qwen3-30b-a3b"
TINY_SLOTS = 8
TRAINING_SEQUENCES = 32
SEQUENCES = 96
PROMPT_TOKENS = 16
DECODE_TOKENS = 40
STEPS_APART = 11

# Single-sequence traces say little; every other model takes the parameters of the longest trace.
_RECIPES = {"qwen3-30b-a3b": "qwen3-30b-a3b", "gpt-oss-120b": "gptoss-120b"}
_DEFAULT_RECIPE = "gptoss-20b"


def tiny_trace(root: str | os.PathLike[str] | None = None) -> RoutingTrace:
    """The tiny model's recorded routing."""
    return read_trace(os.path.join(library_root() if root is None else root, RECORDING))


@cache
def _tiny() -> tuple[RoutingTrace, FloatArray]:
    trace = tiny_trace()
    return trace, _training_shares(trace)


@cache
def _fitted(model: str, seed: int) -> tuple[RoutingTrace, FloatArray]:
    shape = model_shape(model)
    trace = synthetic_trace(
        fitted_recipe(recipe_of(model)),
        model=model,
        layers=shape.moe_layers,
        experts=shape.experts,
        top_k=shape.top_k,
        sequences=SEQUENCES,
        prompt_tokens=PROMPT_TOKENS,
        decode_tokens=DECODE_TOKENS,
        seed=seed,
    )
    return trace, _training_shares(trace)


def fitted_trace(model: str, seed: int = 0) -> RoutingTrace:
    """Synthetic routing with the shape of a model and parameters fitted to recorded routing."""
    return _fitted(model, seed)[0]


def fitted_shares(model: str, seed: int = 0) -> FloatArray:
    """Share of the training sequences' tokens that chose each expert, ``[layers, experts]``."""
    return _fitted(model, seed)[1]


def recipe_of(model: str) -> str:
    """Name of the routing recipe that a model's fitted instances use."""
    return _RECIPES.get(model, _DEFAULT_RECIPE)


def _training_shares(trace: RoutingTrace) -> FloatArray:
    return popularity(trace, rows=np.arange(int(trace.seq_offsets[TRAINING_SEQUENCES])))


def tiny_instances(
    machine: str, batch: int, *, phase: Phase = Phase.DECODE, steps: int = 3
) -> Iterator[InstanceFile]:
    """Steps of the tiny real model, priced as a large model's.

    Residents are chosen by the routing of the first sequences, batches are taken from the others.
    """
    trace, shares = _tiny()
    yield from build_instances(
        trace,
        f"{TINY_COSTS}@{machine}",
        batch,
        slots=TINY_SLOTS,
        resident_popularity=shares,
        phase=phase,
        sequences=range(TRAINING_SEQUENCES, trace.sequences),
        # Steps far apart: neighbours of one sequence are much alike.
        every=STEPS_APART if phase is Phase.DECODE else 1,
        limit=steps,
        name=f"tiny-qwen3-moe@{machine}",
        notes=f"costs of {TINY_COSTS}, whose experts are larger; popularity of the first "
        f"{TRAINING_SEQUENCES} sequences, none of which is in a batch",
    )


def fitted_instances(
    model: str,
    machine: str,
    batch: int,
    *,
    slots: int | None = None,
    lookahead: int | None = None,
    resident_fraction: float = 0.25,
    phase: Phase = Phase.DECODE,
    steps: int = 1,
    costs: CostModel | None = None,
    label: str = "fit",
    seed: int = 0,
) -> Iterator[InstanceFile]:
    """Steps of synthetic routing that is as skewed, persistent and correlated as recorded routing."""
    trace, shares = _fitted(model, seed)
    room = synthetic_settings().slots[model] if slots is None else slots
    ahead = "" if lookahead is None else f"-w{lookahead}"
    for file in build_instances(
        trace,
        f"{model}@{machine}" if costs is None else costs,
        batch,
        slots=room,
        lookahead=lookahead,
        resident_fraction=resident_fraction,
        resident_popularity=shares,
        phase=phase,
        sequences=range(TRAINING_SEQUENCES, SEQUENCES),
        every=STEPS_APART if phase is Phase.DECODE else 1,
        limit=steps,
        name=f"{model}@{machine}-{label}-n{room}{ahead}",
        notes=f"popularity of the first {TRAINING_SEQUENCES} sequences, none of which is in a batch",
    ):
        provenance = Provenance(
            source=file.provenance.source,
            generator=ROUTING_GENERATOR,
            seed=seed,
            notes=f"routing parameters fitted to {recipe_of(model)}; {file.provenance.notes}",
        )
        yield InstanceFile(instance=file.instance, provenance=provenance)


def zipf_instance(
    model: str, machine: str, batch: int, *, lookahead: int | None = None, seed: int = 0
) -> InstanceFile:
    """One batch of the older recipe: Zipf-like popularity, independent tokens."""
    name = f"{model}@{machine}-b{batch}-s{seed}" + (f"-w{lookahead}" if lookahead else "")
    instance = synthetic_instance(model, machine, batch, seed, lookahead=lookahead, name=name)
    provenance = Provenance(
        source=f"synthetic routing with the shape of {model}; costs: {instance.costs.source}",
        generator=GENERATOR,
        seed=seed,
    )
    return InstanceFile(instance=instance, provenance=provenance)
