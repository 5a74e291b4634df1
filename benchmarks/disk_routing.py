"""Figures of a routing - entropy of use, reuse between tokens - and the fewest reads that it allows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
_NOT_RECORDED = 255


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RoutingFigures:
    """How a routing looks; arrays are per layer.

    Parameters
    ----------
    entropy
        Of the shares of use, over that of uniform use.
    reuse
        Share of a token's experts that the token before it, of the same sequence, used as well.
    reuse_8
        The same for eight tokens before.
    top_k, experts
        Per token and in all.
    """

    entropy: Array
    reuse: Array
    reuse_8: Array
    top_k: float
    experts: int

    def describe(self) -> str:
        """Mean and range in words."""
        return (
            f"entropy {self.entropy.mean():.3f} ({self.entropy.min():.2f} to {self.entropy.max():.2f}), "
            f"reuse {self.reuse.mean():.3f} ({self.reuse.min():.2f} to {self.reuse.max():.2f}), "
            f"reuse eight tokens apart {self.reuse_8.mean():.3f}"
        )


# Of decode routing of gpt-oss-20b (34,951 tokens of 88 sequences, 24 layers, 32 experts, top 4), measured
# once with `figures`; aimed at where the trace itself is not there.
REFERENCE = RoutingFigures(
    entropy=np.array([0.909]), reuse=np.array([0.432]), reuse_8=np.array([0.342]), top_k=4.0, experts=32
)


def one_hot(ids: Array, experts: int) -> Array:
    """Chosen experts as bool ``[..., experts]`` of ids ``[..., k]``; 255 is none."""
    wide = np.zeros((*ids.shape[:-1], max(experts, _NOT_RECORDED + 1)), dtype=np.bool_)
    np.put_along_axis(wide, ids.astype(np.int64), True, axis=-1)
    return wide[..., :experts]


def figures(chosen: Array, starts: Array) -> RoutingFigures:
    """Measure a routing.

    Parameters
    ----------
    chosen
        Bool ``[tokens, layers, experts]``, sequence after sequence.
    starts
        First token of each sequence, and the number of tokens.
    """
    shares = chosen.mean(axis=0)
    shares = shares / shares.sum(axis=1, keepdims=True)
    logs = np.log(np.where(shares > 0, shares, 1.0))
    return RoutingFigures(
        entropy=-(shares * logs).sum(axis=1) / np.log(chosen.shape[2]),
        reuse=_reuse(chosen, starts, 1),
        reuse_8=_reuse(chosen, starts, 8),
        top_k=float(chosen.sum(axis=2).mean()),
        experts=chosen.shape[2],
    )


def _reuse(chosen: Array, starts: Array, lag: int) -> Array:
    both, all_of_them = np.zeros(chosen.shape[1]), np.zeros(chosen.shape[1])
    for first, end in zip(starts, starts[1:], strict=False):
        if end - first > lag:
            both += (chosen[first + lag : end] & chosen[first : end - lag]).sum(axis=(0, 2))
            all_of_them += chosen[first + lag : end].sum(axis=(0, 2))
    return both / np.maximum(all_of_them, 1)


def trace_figures(path: Path) -> RoutingFigures:
    """Figures of the decode tokens of a stored trace (``topk_ids``, ``seq_offsets``, ``phase``)."""
    with np.load(path, allow_pickle=False) as stored:
        ids, starts, decode = stored["topk_ids"], stored["seq_offsets"], stored["phase"] == 1
    experts = int(ids[ids != _NOT_RECORDED].max()) + 1
    chosen = one_hot(ids, experts)[decode]
    return figures(chosen, np.concatenate([[0], np.cumsum(decode)])[starts])


def counts_of(chosen: Array, streams: list[Array]) -> list[Array]:
    """Tokens of each expert, ``[layers, experts]``, of steps that each take one token of several streams.

    Parameters
    ----------
    chosen
        Bool ``[streams, tokens, layers, experts]``.
    streams
        Groups of streams that step together, one after the other.
    """
    return [chosen[group, token].sum(axis=0) for group in streams for token in range(chosen.shape[1])]


def belady_reads(steps: list[Array], rows: int) -> list[int]:
    """Reads of each step of the best clairvoyant cache, which may also read without keeping.

    An expert read when its layer needs it is used from a row of its own that costs nothing, so no real cache
    of so many rows reads less in all. It starts empty.

    Parameters
    ----------
    steps
        Bool or counts, ``[layers, experts]`` each.
    rows
        Rows of the cache.
    """
    needed = np.stack([np.asarray(step) > 0 for step in steps])
    count, layers, experts = needed.shape
    never = count * layers + 1
    next_use = np.full((layers, experts), never, dtype=np.int64)
    following = np.empty(needed.shape, dtype=np.int64)
    for step in range(count - 1, -1, -1):
        following[step] = next_use
        for layer in range(layers):
            next_use[layer, needed[step, layer]] = step * layers + layer
    held: dict[tuple[int, int], int] = {}
    reads = []
    for step in range(count):
        missed = 0
        for layer in range(layers):
            for expert in np.flatnonzero(needed[step, layer]).tolist():
                missed += (layer, expert) not in held
                held[layer, expert] = int(following[step, layer, expert])
            if len(held) > rows:
                kept = sorted(held.items(), key=lambda item: item[1])[:rows]
                held = dict(kept)
        reads.append(missed)
    return reads
