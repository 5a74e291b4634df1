"""Seeded synthetic instances: Zipf-like popularity with drift, for the models and machines of the presets."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from prescope.formulation import Demand, Instance, ModelShape, model_shape, preset
from prescope.formulation.checks import require_int
from prescope.formulation.demand import FloatArray
from prescope.instances.residents import choose_residents

GENERATOR = "prescope.instances.synthetic, version 1"
"""Name and version of the recipe, for provenance: a change of its output changes the version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticSettings:
    """Settings of the recipe (data/synthetic.json).

    Parameters
    ----------
    popularity_exponent
        Popularity of the expert of rank r is ``r ** -popularity_exponent``.
    drift_sigma
        Standard deviation of the logarithm of each batch's popularity change.
    resident_fraction
        Share of each layer's experts, the most popular ones, that are resident.
    slots
        Slots by model name.
    """

    popularity_exponent: float
    drift_sigma: float
    resident_fraction: float
    slots: dict[str, int]


@cache
def synthetic_settings() -> SyntheticSettings:
    """The settings that every synthetic instance uses unless told otherwise."""
    text = files("prescope.instances").joinpath("data/synthetic.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    del loaded["about"]
    return SyntheticSettings(**loaded)


def synthetic_popularity(shape: ModelShape, seed: int) -> FloatArray:
    """Long-run popularity of every expert, shape ``[layers, experts]``, rows sum to one."""
    rng = _generator(shape.name, seed, 0)
    weights = np.arange(1, shape.experts + 1) ** -synthetic_settings().popularity_exponent
    table = np.stack([weights[rng.permutation(shape.experts)] for _ in range(shape.moe_layers)])
    normalised: FloatArray = table / table.sum(axis=1, keepdims=True)
    return normalised


def synthetic_demand(shape: ModelShape, batch: int, seed: int, *, step: int = 0) -> Demand:
    """Token counts of one batch.

    Parameters
    ----------
    shape
        Layers, experts and experts per token.
    batch
        Tokens of the batch, at least 1.
    seed
        Fixes the popularity and, with ``step``, the batch.
    step
        Number of the batch: batches of one seed share popularity and differ in drift and draws.
    """
    require_int("batch", batch, 1)
    require_int("step", step, 0)
    popularity = synthetic_popularity(shape, seed)
    rng = _generator(shape.name, seed, 1 + step)
    counts = np.zeros((shape.moe_layers, shape.experts), dtype=np.int64)
    for layer in range(shape.moe_layers):
        drift = np.exp(synthetic_settings().drift_sigma * rng.standard_normal(shape.experts))
        # An exponential race is Gumbel top-k without the second logarithm: the k first are the draw.
        arrivals = rng.standard_exponential((batch, shape.experts)) / (popularity[layer] * drift)
        chosen = np.argpartition(arrivals, shape.top_k - 1, axis=1)[:, : shape.top_k]
        counts[layer] = np.bincount(chosen.ravel(), minlength=shape.experts)
    return Demand(counts=counts, batch_tokens=batch)


def synthetic_instance(
    model: str,
    machine: str,
    batch: int,
    seed: int,
    *,
    step: int = 0,
    link_bytes_per_s: int | None = None,
    lookahead: int | None = None,
    slots: int | None = None,
    resident_fraction: float | None = None,
    name: str | None = None,
) -> Instance:
    """One batch of a preset's model on a preset's machine.

    Parameters
    ----------
    model, machine
        Names in `prescope.formulation.model_names` and `machine_names`.
    batch
        Tokens of the batch, at least 1.
    seed, step
        As for `synthetic_demand`; the same routing on every machine.
    link_bytes_per_s
        Bandwidth instead of the machine's.
    lookahead
        Layers ahead that copies may start; by default the number of layers (known from the start).
    slots, resident_fraction
        Instead of `synthetic_settings`.
    name
        Instead of ``model@machine-bBATCH-sSEED`` (and ``-tSTEP`` after the first step).

    Raises
    ------
    ValueError
        When a name is unknown or a number out of range.
    """
    settings = synthetic_settings()
    shape = model_shape(model)
    chosen = preset(f"{model}@{machine}")
    costs = chosen.costs
    label = f"{model}@{machine}-b{batch}-s{seed}" + (f"-t{step}" if step else "")
    if link_bytes_per_s is not None:
        link = replace(costs.link, bytes_per_s=link_bytes_per_s)
        costs = replace(costs, link=link, source=f"{costs.source}, link {link_bytes_per_s} bytes/s")
        label += f"-link{link_bytes_per_s}"
    fraction = settings.resident_fraction if resident_fraction is None else resident_fraction
    return Instance(
        name=label if name is None else name,
        costs=costs,
        demand=synthetic_demand(shape, batch, seed, step=step),
        residents=choose_residents(synthetic_popularity(shape, seed), fraction=fraction),
        slots=settings.slots[model] if slots is None else slots,
        lookahead=shape.moe_layers if lookahead is None else lookahead,
        tier=chosen.tier,
        host_computes=chosen.host_computes,
    )


def _generator(model: str, seed: int, stream: int) -> np.random.Generator:
    require_int("seed", seed, 0)
    # The model's name is part of the seed: two models of one shape must not get the same routing.
    return np.random.Generator(np.random.PCG64([zlib.crc32(model.encode()), seed, stream]))
