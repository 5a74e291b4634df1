"""From a routing trace to the demand of batches: decode steps, prefills, popularity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from prescope.formulation import Demand
from prescope.formulation.checks import require_int
from prescope.formulation.demand import FloatArray, IntArray
from prescope.instances.routing_trace import NOT_RECORDED, Phase, RoutingTrace

OnMissing = Literal["refuse", "ignore"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BatchStep:
    """One forward pass of a batch.

    Parameters
    ----------
    demand
        Tokens per layer and expert.
    rows
        The tokens in the trace, ascending, int64 ``[batch_tokens]``.
    group
        Which sequences: group ``g`` is the ``g``-th ``batch`` of them.
    step
        Number of the step in its group.
    """

    demand: Demand
    rows: IntArray
    group: int
    step: int


def decode_batches(
    trace: RoutingTrace,
    batch: int,
    *,
    sequences: Sequence[int] | None = None,
    segment_tokens: int | None = None,
    max_steps: int | None = None,
    on_missing: OnMissing = "refuse",
) -> Iterator[BatchStep]:
    """Step sequences together, ``batch`` at a time, one decoded token of each per step.

    A finished sequence is dropped, so a group's batch shrinks; the next group starts when all are done.

    Parameters
    ----------
    trace
        Recorded routing; padding is left out.
    batch
        Sequences per group, at most as many as there are with decoded tokens.
    sequences
        Which, in this order; by default all.
    segment_tokens
        Cut every sequence into pieces of at most this many decoded tokens that count as sequences of their
        own, to emulate a batch larger than the number of sequences.
    max_steps
        Steps per group at most.
    on_missing
        What to do when routing of a needed token was not recorded: ``"refuse"``, or ``"ignore"``, which
        counts its recorded experts only.

    Returns
    -------
    iterator of BatchStep
        Made one by one; arguments are checked at once, missing routing when its step comes.

    Raises
    ------
    ValueError
        When an argument is out of range or routing is missing.
    """
    runs = _runs(trace, Phase.DECODE, sequences)
    if segment_tokens is not None:
        require_int("segment_tokens", segment_tokens, 1)
        runs = [run[at : at + segment_tokens] for run in runs for at in range(0, len(run), segment_tokens)]
    groups = _groups(runs, batch, "decoded")
    if max_steps is not None:
        require_int("max_steps", max_steps, 1)
    return (
        _step(trace, _nth(group, step), number, step, on_missing)
        for number, group in enumerate(groups)
        for step in range(min(max(len(run) for run in group), max_steps or trace.tokens))
    )


def prefill(
    trace: RoutingTrace,
    batch: int = 1,
    *,
    sequences: Sequence[int] | None = None,
    chunk_tokens: int | None = None,
    on_missing: OnMissing = "refuse",
) -> Iterator[BatchStep]:
    """Take the prompts of ``batch`` sequences at a time, whole or in chunks.

    Parameters
    ----------
    trace, sequences, on_missing
        As for `decode_batches`.
    batch
        Prompts per group, at most as many as there are.
    chunk_tokens
        Tokens of each prompt per step (chunked prefill); by default all of them in one step.
    """
    groups = _groups(_runs(trace, Phase.PREFILL, sequences), batch, "prefill")
    if chunk_tokens is not None:
        require_int("chunk_tokens", chunk_tokens, 1)
    width = trace.tokens if chunk_tokens is None else chunk_tokens
    return (
        _step(trace, _slice(group, start, width), number, start // width, on_missing)
        for number, group in enumerate(groups)
        for start in range(0, max(len(run) for run in group), width)
    )


def popularity(trace: RoutingTrace, *, rows: npt.ArrayLike | None = None) -> FloatArray:
    """Share of tokens that chose each expert, float64 ``[layers, experts]``.

    Tokens that are padding, or none of whose experts in a layer were recorded, do not count there.

    Parameters
    ----------
    trace
        Recorded routing.
    rows
        Tokens to count; by default all.
    """
    chosen = np.arange(trace.tokens) if rows is None else np.asarray(rows, dtype=np.int64)
    chosen = chosen[~trace.padding[chosen]]
    recorded = (trace.topk_ids[chosen] != NOT_RECORDED).any(axis=2).sum(axis=0)
    shares: FloatArray = _counts(trace, chosen) / np.maximum(recorded, 1)[:, None]
    return shares


def activations(trace: RoutingTrace) -> IntArray:
    """How many tokens chose each expert, padding left out; int64 ``[layers, experts]``."""
    return _counts(trace, np.flatnonzero(~trace.padding))


def _runs(trace: RoutingTrace, phase: Phase, sequences: Sequence[int] | None) -> list[IntArray]:
    wanted = (trace.phase == phase) & ~trace.padding
    runs = []
    for sequence in range(trace.sequences) if sequences is None else sequences:
        require_int("sequence", sequence, 0, trace.sequences - 1)
        start, end = int(trace.seq_offsets[sequence]), int(trace.seq_offsets[sequence + 1])
        run = start + np.flatnonzero(wanted[start:end])
        if len(run):
            runs.append(run.astype(np.int64))
    return runs


def _groups(runs: list[IntArray], batch: int, what: str) -> list[list[IntArray]]:
    if not runs:
        raise ValueError(f"expected sequences with {what} tokens, got none in this trace")
    require_int("batch", batch, 1)
    if batch > len(runs):
        raise ValueError(
            f"expected batch in [1, {len(runs)}], the number of sequences with {what} tokens, got {batch}"
        )
    return [runs[at : at + batch] for at in range(0, len(runs), batch)]


def _nth(runs: list[IntArray], step: int) -> IntArray:
    return np.array(sorted(int(run[step]) for run in runs if step < len(run)), dtype=np.int64)


def _slice(runs: list[IntArray], start: int, width: int) -> IntArray:
    return np.sort(np.concatenate([run[start : start + width] for run in runs]))


def _step(trace: RoutingTrace, rows: IntArray, group: int, step: int, on_missing: OnMissing) -> BatchStep:
    missing = int((trace.topk_ids[rows] == NOT_RECORDED).sum())
    if missing and on_missing == "refuse":
        raise ValueError(
            f"expected recorded routing for all {len(rows)} tokens of group {group}, step {step}, got "
            f"{missing} entries that were not recorded; on_missing='ignore' counts the recorded ones only"
        )
    rows.flags.writeable = False
    demand = Demand(counts=_counts(trace, rows), batch_tokens=len(rows))
    return BatchStep(demand=demand, rows=rows, group=group, step=step)


def _counts(trace: RoutingTrace, rows: IntArray) -> IntArray:
    layers, experts = trace.layers, trace.meta.experts
    ids = trace.topk_ids[rows].astype(np.int64)
    flat = (ids + np.arange(layers)[:, None] * experts)[ids != NOT_RECORDED]
    counts: IntArray = np.bincount(flat, minlength=layers * experts).reshape(layers, experts)
    return counts
