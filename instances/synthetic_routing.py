"""Seeded routing with the skew, the persistence and the correlation across layers of recorded traces.

A token ``t`` has a latent vector ``h_t`` that all layers share; layer ``l`` scores expert ``e`` by

``-popularity * log(rank_l(e)) + strength * U_l(e) . h_t + Gumbel noise``

and takes the top k. ``h_t`` has a part that is constant in a sequence (its topic), a part that moves slowly
from token to token, and a part of its own. `fitted_recipe` gives parameters fitted to recorded traces by
``benchmarks/fit_routing.py``.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from prescope.formulation.checks import require_finite, require_int
from prescope.formulation.demand import FloatArray
from prescope.instances.routing_trace import RoutingTrace, TraceMeta

ROUTING_GENERATOR = "prescope.instances.synthetic_routing, version 1"
"""Name and version of the recipe, for provenance: a change of its output changes the version."""

_CHUNK_VALUES = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingRecipe:
    """Parameters of the generator.

    Parameters
    ----------
    name
        For provenance: the trace that they were fitted to.
    popularity
        Exponent of each layer's Zipf-like popularity, at least 0.
    strength
        Standard deviation of what the latent vector adds to a score, against Gumbel noise of scale 1.
    topic, slow
        Shares of the latent vector's variance that belong to the sequence, and to the slow part; the rest is
        the token's own. In [0, 1], together at most 1.
    memory
        Correlation of the slow part from one token to the next, in [0, 1).
    rank
        Dimensions of the latent vector, at least 1.
    """

    name: str
    popularity: float
    strength: float
    topic: float
    slow: float
    memory: float
    rank: int

    def __post_init__(self) -> None:
        for field in ("popularity", "strength", "topic", "slow", "memory"):
            require_finite(field, getattr(self, field), 0.0)
        require_int("rank", self.rank, 1)
        if self.topic + self.slow > 1 + 1e-9:
            raise ValueError(f"expected topic + slow <= 1, got {self.topic} + {self.slow}")
        if self.memory >= 1:
            raise ValueError(f"expected memory in [0, 1), got {self.memory}")


@cache
def _recipes() -> dict[str, Any]:
    text = files("prescope.instances").joinpath("data/routing_recipes.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)["recipes"]
    return loaded


def recipe_names() -> tuple[str, ...]:
    """Names that `fitted_recipe` takes: the traces that parameters were fitted to."""
    return tuple(_recipes())


def fitted_recipe(name: str) -> RoutingRecipe:
    """The parameters fitted to a trace.

    Raises
    ------
    ValueError
        When the name is unknown; the message lists the known ones.
    """
    if name not in _recipes():
        raise ValueError(f"expected a recipe among {', '.join(recipe_names())}, got {name!r}")
    return RoutingRecipe(name=name, **_recipes()[name])


def synthetic_trace(
    recipe: RoutingRecipe,
    *,
    model: str,
    layers: int,
    experts: int,
    top_k: int,
    sequences: int,
    prompt_tokens: int,
    decode_tokens: int,
    seed: int,
) -> RoutingTrace:
    """Routing of independent sequences of equal length.

    Parameters
    ----------
    recipe
        Parameters.
    model
        Name for the trace; part of the seed, so that two models of one shape get different routing.
    layers, experts, top_k
        Shape of the model.
    sequences, prompt_tokens, decode_tokens
        Number of sequences, and of prefill and decode tokens in each.
    seed
        Fixes everything.

    Raises
    ------
    ValueError
        When a number is out of range.
    """
    for name, value in (("layers", layers), ("experts", experts), ("sequences", sequences)):
        require_int(name, value, 1)
    require_int("top_k", top_k, 1, experts)
    require_int("prompt_tokens", prompt_tokens, 0)
    require_int("decode_tokens", decode_tokens, 0)
    require_int("prompt_tokens + decode_tokens", prompt_tokens + decode_tokens, 1)
    require_int("seed", seed, 0)
    rng = np.random.Generator(np.random.PCG64([zlib.crc32(model.encode()), seed]))
    length = prompt_tokens + decode_tokens
    latent = _latent(recipe, sequences, length, rng)
    ids = np.empty((sequences * length, layers, top_k), dtype=np.int16)
    chunk = max(1, _CHUNK_VALUES // experts)
    for layer in range(layers):
        popular = -recipe.popularity * np.log(1.0 + rng.permutation(experts))
        directions = rng.standard_normal((recipe.rank, experts)) * (recipe.strength / np.sqrt(recipe.rank))
        for start in range(0, len(latent), chunk):
            part = latent[start : start + chunk]
            scores = popular + part @ directions + rng.gumbel(size=(len(part), experts))
            chosen = np.argpartition(-scores, top_k - 1, axis=1)[:, :top_k]
            ids[start : start + chunk, layer] = np.sort(chosen, axis=1)
    phase = np.tile((np.arange(length) >= prompt_tokens).astype(np.uint8), sequences)
    return RoutingTrace(
        topk_ids=ids,
        seq_offsets=np.arange(0, sequences * length + 1, length),
        phase=phase,
        meta=TraceMeta(
            model=model,
            experts=experts,
            top_k=top_k,
            source=f"synthetic, {ROUTING_GENERATOR}, parameters fitted to {recipe.name}, seed {seed}",
        ),
    )


def _latent(recipe: RoutingRecipe, sequences: int, length: int, rng: np.random.Generator) -> FloatArray:
    """Latent vectors, float64 ``[sequences * length, rank]``, of variance one."""
    topic = rng.standard_normal((sequences, 1, recipe.rank))
    own = rng.standard_normal((sequences, length, recipe.rank))
    steps = rng.standard_normal((sequences, length, recipe.rank))
    slow = np.empty_like(steps)
    slow[:, 0] = steps[:, 0]
    fresh = np.sqrt(1 - recipe.memory**2)
    for at in range(1, length):
        slow[:, at] = recipe.memory * slow[:, at - 1] + fresh * steps[:, at]
    rest = max(0.0, 1 - recipe.topic - recipe.slow)
    latent: FloatArray = np.sqrt(recipe.topic) * topic + np.sqrt(recipe.slow) * slow + np.sqrt(rest) * own
    return latent.reshape(sequences * length, recipe.rank)
