"""What the library's sets are made of: the instances without bounds and plans, which the solver adds."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from prescope.formulation import model_names
from prescope.instances.batches import popularity
from prescope.instances.builders import build_instances
from prescope.instances.instance_file import InstanceFile
from prescope.instances.library import library_root
from prescope.instances.provenance import Provenance
from prescope.instances.routing_trace import Phase, RoutingTrace
from prescope.instances.synthetic import GENERATOR, synthetic_instance
from prescope.instances.trace_file import read_trace

SYNTHETIC_MACHINES = ("a100-pcie4", "v100-pcie3", "lab", "nvme-ram")
BATCHES = (1, 8, 32)
LOOKAHEAD_MODELS = ("mixtral-8x7b", "qwen3-30b-a3b")
LOOKAHEADS = (1, 2, 4)

TINY_COSTS = "qwen3-30b-a3b"
TINY_MACHINES = ("a100-pcie4", "v100-pcie3", "nvme-ram")
TINY_SLOTS = 8
TINY_TRAINING_SEQUENCES = 32
TINY_STEPS = 3
TRACE = "trace.npz"


def synthetic_set(seed: int = 0) -> Iterator[InstanceFile]:
    """Nine models on four machines at three batch sizes, and short lookaheads for two of the models."""
    for model in model_names():
        for machine in SYNTHETIC_MACHINES:
            for batch in BATCHES:
                yield _synthetic(model, machine, batch, seed, None)
    for model in LOOKAHEAD_MODELS:
        for lookahead in LOOKAHEADS:
            for batch in BATCHES[:2]:
                yield _synthetic(model, "lab", batch, seed, lookahead)


def tiny_real_set(trace: RoutingTrace) -> Iterator[InstanceFile]:
    """Decode steps and prefills of the tiny real model, priced as a large model's.

    Residents are chosen by the routing of the first sequences, batches are taken from the others.
    """
    training = np.arange(int(trace.seq_offsets[TINY_TRAINING_SEQUENCES]))
    shares = popularity(trace, rows=training)
    others = range(TINY_TRAINING_SEQUENCES, trace.sequences)
    for machine in TINY_MACHINES:
        for phase, batch in [(Phase.DECODE, size) for size in BATCHES] + [(Phase.PREFILL, 4)]:
            yield from build_instances(
                trace,
                f"{TINY_COSTS}@{machine}",
                batch,
                slots=TINY_SLOTS,
                resident_popularity=shares,
                phase=phase,
                sequences=others,
                # Steps far apart: neighbours of one sequence are much alike.
                every=11 if phase is Phase.DECODE else 1,
                limit=TINY_STEPS if phase is Phase.DECODE else 1,
                name=f"tiny-qwen3-moe@{machine}",
                notes=f"costs of {TINY_COSTS}, whose experts are larger; popularity of the first "
                f"{TINY_TRAINING_SEQUENCES} sequences, none of which is in a batch",
            )


def tiny_trace(root: str | os.PathLike[str] | None = None) -> RoutingTrace:
    """The recorded routing behind the set ``tiny-real``."""
    folder = library_root() if root is None else root
    return read_trace(os.path.join(folder, "tiny-real", TRACE))


def _synthetic(model: str, machine: str, batch: int, seed: int, lookahead: int | None) -> InstanceFile:
    name = f"{model}@{machine}-b{batch}-s{seed}" + (f"-w{lookahead}" if lookahead else "")
    instance = synthetic_instance(model, machine, batch, seed, lookahead=lookahead, name=name)
    provenance = Provenance(
        source=f"synthetic routing with the shape of {model}; costs: {instance.costs.source}",
        generator=GENERATOR,
        seed=seed,
    )
    return InstanceFile(instance=instance, provenance=provenance)
