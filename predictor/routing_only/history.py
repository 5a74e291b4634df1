"""What the predictor's memory held at every token of a trace, for training in bulk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prescope.formulation.demand import FloatArray, IntArray
from prescope.instances import NOT_RECORDED, Phase, RoutingTrace


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class History:
    """Tokens of some sequences with their past.

    Parameters
    ----------
    ids, weights
        Choices of every token, ``[tokens, layers, top_k]``.
    before, after
        The token before and after in the same sequence, -1 without one, ``[tokens]``.
    averages
        Moving averages before each token, float16 ``[tokens, layers, decays, experts]``.
    prior
        Where averages start, ``[layers, experts]``.
    sequence
        Which sequence each token belongs to, ``[tokens]``.
    usable
        Tokens to learn from: decoded where the trace tells, and recorded in every layer, ``[tokens]``.
    """

    ids: IntArray
    weights: npt.NDArray[np.float32]
    before: IntArray
    after: IntArray
    averages: npt.NDArray[np.float16]
    prior: FloatArray
    sequence: IntArray
    usable: npt.NDArray[np.bool_]

    @classmethod
    def of(
        cls, trace: RoutingTrace, sequences: Sequence[int], *, prior: FloatArray, decays: Sequence[float]
    ) -> History:
        """Collect the sequences of a trace; padding is left out."""
        runs = []
        for one in sequences:
            start, end = int(trace.seq_offsets[one]), int(trace.seq_offsets[one + 1])
            runs.append(start + np.flatnonzero(~trace.padding[start:end]))
        rows = np.concatenate(runs) if runs else np.zeros(0, dtype=np.int64)
        lengths = [len(run) for run in runs]
        sequence = np.repeat(np.asarray(sequences, dtype=np.int64), lengths)
        index = np.arange(len(rows))
        same = np.zeros(len(rows) + 1, dtype=np.bool_)
        same[1:-1] = sequence[1:] == sequence[:-1]
        ids = trace.topk_ids[rows].astype(np.int64)
        weights = np.zeros(ids.shape, dtype=np.float32)
        if trace.topk_weights is not None:
            weights = trace.topk_weights[rows].astype(np.float32)
        decoded = trace.phase[rows] == Phase.DECODE
        if not decoded.any():
            decoded[:] = True
        return cls(
            ids=ids,
            weights=weights,
            before=np.where(same[:-1], index - 1, -1),
            after=np.where(same[1:], index + 1, -1),
            averages=_averages(ids, lengths, prior, decays),
            prior=prior,
            sequence=sequence,
            usable=decoded & (ids != NOT_RECORDED).all(axis=(1, 2)),
        )


def _averages(
    ids: IntArray, lengths: Sequence[int], prior: FloatArray, decays: Sequence[float]
) -> npt.NDArray[np.float16]:
    layers, experts = prior.shape
    kept = np.asarray(decays, dtype=np.float32)[:, None]
    found = np.zeros((len(ids), layers, len(decays), experts), dtype=np.float16)
    starts = np.concatenate([[0], np.cumsum(lengths)])[:-1].astype(np.int64)
    ends = starts + np.asarray(lengths, dtype=np.int64)
    state = np.repeat(
        prior.astype(np.float32)[None, :, None, :].repeat(len(decays), axis=2), len(starts), axis=0
    )
    # All sequences take their n-th token together.
    for step in range(max(lengths, default=0)):
        running = np.flatnonzero(starts + step < ends)
        tokens = starts[running] + step
        found[tokens] = state[running]
        chosen = ids[tokens]
        hot = np.zeros((len(tokens), layers, experts + 1), dtype=np.float32)
        np.put_along_axis(hot, np.where(chosen < 0, experts, chosen), 1.0, axis=2)
        state[running] = kept * state[running] + (1.0 - kept) * hot[:, :, None, :experts]
    return found
