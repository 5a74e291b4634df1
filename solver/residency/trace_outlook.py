"""The outlook model fitted to recorded routing."""

from __future__ import annotations

import numpy as np

from prescope.formulation.demand import IntArray
from prescope.instances import NOT_RECORDED, RoutingTrace
from prescope.solver.residency.history import fit_to_history
from prescope.solver.residency.outlook_model import OutlookSums


def outlook_of_trace(trace: RoutingTrace) -> OutlookSums:
    """What the tokens of each recorded sequence say of those after them, one token being a step.

    Raises
    ------
    ValueError
        When no sequence is longer than the future that is to be learned.
    """
    ends = trace.seq_offsets
    history = [_counts(trace, int(ends[one]), int(ends[one + 1])) for one in range(trace.sequences)]
    whole = np.concatenate(history)
    shares = whole.sum(axis=0) / max(1, whole.shape[0])
    sums = fit_to_history(history, np.clip(shares, 0.0, 1.0))
    if not sums.weight:
        longest = max(len(one) for one in history)
        raise ValueError(
            f"expected a sequence of at least {sums.settings.ahead} tokens to learn from, got {longest}"
        )
    return sums


def _counts(trace: RoutingTrace, first: int, end: int) -> IntArray:
    rows = np.arange(first, end)[~trace.padding[first:end]]
    ids = trace.topk_ids[rows].astype(np.int64)
    counts = np.zeros((*ids.shape[:2], trace.meta.experts + 1), dtype=np.int64)
    np.add.at(
        counts,
        (np.arange(len(rows))[:, None, None], np.arange(ids.shape[1])[None, :, None], _known(ids, trace)),
        1,
    )
    return counts[..., :-1]


def _known(ids: IntArray, trace: RoutingTrace) -> IntArray:
    """Experts that were not recorded go to a column of their own."""
    return np.where(ids == NOT_RECORDED, trace.meta.experts, ids)
