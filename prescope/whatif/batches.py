"""Steps of a constant batch out of recorded routing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prescope.formulation.demand import FloatArray, IntArray
from prescope.instances import NOT_RECORDED, Phase, RoutingTrace, popularity


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Material:
    """What is replayed and what is known beforehand.

    Parameters
    ----------
    rows
        Tokens of the trace in the order of their sequences, one array per sequence replayed.
    shares
        Share of tokens that chose each expert in the other sequences, ``[layers, experts]``: chooses what
        stays in memory.
    same
        Whether there are no other sequences, so that the shares are those of what is replayed.
    """

    rows: tuple[IntArray, ...]
    shares: FloatArray
    same: bool


def material(trace: RoutingTrace, *, seed: int) -> Material:
    """Half of the sequences to replay, the other half to know the experts' popularity from.

    Decoded tokens where there are any, otherwise those of the prompts, as if they came one by one.

    Raises
    ------
    ValueError
        When there are no tokens with recorded routing.
    """
    recorded = ~trace.padding & (trace.topk_ids != NOT_RECORDED).any(axis=(1, 2))
    wanted = recorded & (trace.phase == Phase.DECODE)
    if not wanted.any():
        wanted = recorded
    runs = []
    for first, end in zip(trace.seq_offsets[:-1].tolist(), trace.seq_offsets[1:].tolist(), strict=True):
        run = first + np.flatnonzero(wanted[first:end])
        if len(run):
            runs.append(run.astype(np.int64))
    if not runs:
        raise ValueError("expected tokens with recorded routing in this trace, got none")
    order = np.random.default_rng(seed).permutation(len(runs)).tolist()
    half = len(runs) // 2
    known = [runs[at] for at in order[:half]] or runs
    replayed = [runs[at] for at in order[half:]]
    return Material(
        rows=tuple(replayed), shares=popularity(trace, rows=np.concatenate(known)), same=half == 0
    )


def draw_counts(
    trace: RoutingTrace, rows: tuple[IntArray, ...], *, batch: int, steps: int, seed: int
) -> IntArray:
    """Tokens of each expert in each step, int64 ``[steps, layers, experts]``.

    Every row of the batch reads sequences in an order of its own from a drawn place on, one after the other,
    as a server does that is never idle. The same seed gives the first rows of a larger batch the same tokens.

    Parameters
    ----------
    trace, rows
        Recorded routing, and the tokens of its sequences.
    batch, steps
        Tokens per step, and steps.
    seed
        Of the draws.
    """
    layers, experts = trace.layers, trace.meta.experts
    counts = np.zeros((steps, layers, experts), dtype=np.int64)
    place = np.arange(layers)[:, None] * experts
    for row in range(batch):
        random = np.random.default_rng([seed, row])
        stream = np.concatenate([rows[at] for at in random.permutation(len(rows))])
        first = int(random.integers(len(stream)))
        tokens = stream[(first + np.arange(steps)) % len(stream)]
        ids = trace.topk_ids[tokens].astype(np.int64)
        flat = (np.arange(steps)[:, None, None] * layers * experts + place + ids)[ids != NOT_RECORDED]
        counts += np.bincount(flat, minlength=counts.size).reshape(counts.shape)
    return counts
