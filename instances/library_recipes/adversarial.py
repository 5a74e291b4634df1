"""Set ``adversarial``: small instances that trap a rule or an argument, found by search.

Their durations are small numbers of nanoseconds (read them as microseconds): CP-SAT then proves in a
fraction of a second what it cannot prove in minutes when the same durations are a thousand times finer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from prescope.formulation import CostModel, Demand, Instance, LinearTime, Link, Tier
from prescope.instances.instance_file import InstanceFile
from prescope.instances.provenance import Provenance

ADVERSARIAL_GENERATOR = "prescope.instances.library_recipes.adversarial, version 1"

_Generator = np.random.Generator


def _base(
    rng: _Generator,
    name: str,
    *,
    layers: int,
    experts: int,
    tokens: int,
    slots: int,
    lookahead: int | None = None,
    active: float = 0.7,
    resident: float = 0.2,
    token_ns: float = 0.0,
    sizes: tuple[float, ...] | None = None,
    copy_ns: int = 400,
    cpu_ns: int = 300,
    gpu_ns: int = 40,
    dense_ns: int = 250,
    link_ready_ns: int = 0,
    host_computes: bool = True,
) -> Instance:
    """An instance of given mean durations; every layer's own durations vary by a third."""
    wide = sizes or tuple(rng.uniform(0.7, 1.3) for _ in range(layers))
    used = rng.random((layers, experts)) < active
    skew = rng.pareto(1.5, (layers, experts)) + 1
    counts = np.where(used, np.minimum(tokens, np.ceil(skew * tokens / 6)), 0).astype(np.int64)
    stay = rng.random((layers, experts)) < resident

    def curves(mean_ns: int, per_token_ns: float) -> tuple[LinearTime, ...]:
        return tuple(
            LinearTime(fixed_ns=round(mean_ns * rng.uniform(0.67, 1.33)), per_token_ns=round(per_token_ns, 1))
            for _ in range(layers)
        )

    return Instance(
        name=name,
        costs=CostModel(
            expert_bytes=tuple(max(1, round(copy_ns * width)) for width in wide),
            link=Link(bytes_per_s=10**9),
            gpu=curves(gpu_ns, token_ns),
            cpu=curves(cpu_ns, cpu_ns / 8),
            dense=curves(dense_ns, 0.0),
            source="drawn at random in small units; a byte is a nanosecond of link time",
        ),
        demand=Demand(counts=counts, batch_tokens=tokens),
        residents=tuple(tuple(row.nonzero()[0].tolist()) for row in stay),
        slots=slots,
        lookahead=layers if lookahead is None else lookahead,
        tier=Tier.RAM if host_computes else Tier.DISK,
        host_computes=host_computes,
        link_ready_ns=link_ready_ns,
    )


def _unequal(rng: _Generator, name: str) -> Instance:
    sizes = tuple(float(rng.choice([0.2, 1.0, 3.0])) for _ in range(5))
    return _base(rng, name, layers=5, experts=4, tokens=6, slots=2, sizes=sizes)


def _dear_tokens(rng: _Generator, name: str) -> Instance:
    return _base(rng, name, layers=4, experts=6, tokens=12, slots=3, token_ns=30.0, copy_ns=150)


def _order(rng: _Generator, name: str) -> Instance:
    return _base(rng, name, layers=4, experts=5, tokens=8, slots=2, token_ns=20.0, host_computes=False)


def _one_slot(rng: _Generator, name: str) -> Instance:
    return _base(rng, name, layers=5, experts=5, tokens=6, slots=1, gpu_ns=150)


def _greedy(rng: _Generator, name: str) -> Instance:
    return _base(
        rng, name, layers=10, experts=8, tokens=4, slots=4, active=float(rng.uniform(0.1, 0.5)), resident=0.1
    )


def _short_sight(rng: _Generator, name: str) -> Instance:
    return _base(rng, name, layers=9, experts=6, tokens=5, slots=3, lookahead=2, active=0.4, dense_ns=500)


def _late_copy(rng: _Generator, name: str) -> Instance:
    sizes = tuple(float(rng.choice([0.3, 1.5])) for _ in range(6))
    ready = int(rng.integers(500, 3000))
    return _base(rng, name, layers=6, experts=5, tokens=5, slots=2, sizes=sizes, link_ready_ns=ready)


def _empty_layers(rng: _Generator, name: str) -> Instance:
    whole = _base(rng, name, layers=8, experts=5, tokens=6, slots=3, lookahead=3)
    counts = np.array(whole.demand.counts)
    counts[rng.permutation(8)[:4]] = 0
    return _replace_counts(whole, counts)


def _one_expert(rng: _Generator, name: str) -> Instance:
    return _base(rng, name, layers=12, experts=1, tokens=3, slots=2, active=1.0, resident=0.0, lookahead=4)


def _burst(rng: _Generator, name: str) -> Instance:
    whole = _base(rng, name, layers=8, experts=12, tokens=8, slots=4, active=0.15, resident=0.1)
    counts = np.array(whole.demand.counts)
    busy = int(rng.integers(4, 8))
    counts[busy] = rng.integers(1, 9, 12)
    return _replace_counts(whole, counts)


def _replace_counts(whole: Instance, counts: np.ndarray[Any, Any]) -> Instance:
    from dataclasses import replace

    return replace(whole, demand=Demand(counts=counts, batch_tokens=whole.demand.batch_tokens))


FAMILIES: dict[str, tuple[Callable[[_Generator, str], Instance], str]] = {
    "unequal": (
        _unequal,
        "sizes differ between layers and slots are few: copies in layer order are not optimal",
    ),
    "dear-tokens": (_dear_tokens, "device time grows with tokens: copying the heaviest is not optimal"),
    "order": (
        _order,
        "the host cannot compute: the order of copies and of device work inside a layer decides",
    ),
    "one-slot": (
        _one_slot,
        "one slot: a copy waits for the device, and prefetching blocks the current layer",
    ),
    "greedy": (_greedy, "few active experts: the best split of each layer leaves no lead for the next"),
    "short-sight": (_short_sight, "two layers of lookahead: the joint split of two layers is a trap"),
    "late-copy": (_late_copy, "the link is busy at first: small late copies overtake large early ones"),
    "empty-layers": (_empty_layers, "layers without tokens: only their dense work passes, copies go on"),
    "one-expert": (_one_expert, "one expert per layer: no split at all, only whether and when to copy"),
    "burst": (_burst, "one crowded layer behind quiet ones: slots fill long before its gate"),
}
"""Generator of a family and what it is for."""


def adversarial_instance(family: str, seed: int) -> Instance:
    """The instance of a family (one of `FAMILIES`) and a seed."""
    rng = np.random.Generator(np.random.PCG64([seed, *family.encode()]))
    return FAMILIES[family][0](rng, f"{family}-{seed}")


@cache
def _chosen() -> dict[str, list[int]]:
    text = files("prescope.instances").joinpath("data/adversarial.json").read_text(encoding="utf-8")
    seeds: dict[str, list[int]] = json.loads(text)["seeds"]
    return seeds


def adversarial_set() -> Iterator[InstanceFile]:
    """The seeds that the search kept, family by family."""
    for family, seeds in _chosen().items():
        for seed in seeds:
            provenance = Provenance(
                source="drawn at random with round durations, kept by benchmarks/search_adversarial.py",
                generator=ADVERSARIAL_GENERATOR,
                seed=seed,
                notes=FAMILIES[family][1],
            )
            yield InstanceFile(instance=adversarial_instance(family, seed), provenance=provenance)
