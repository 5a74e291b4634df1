"""How well a prediction tells the tokens of each expert in a batch."""

from __future__ import annotations

import numpy as np

from prescope.formulation.demand import FloatArray, IntArray
from prescope.predictor.evaluation.recall import Probabilities, best_experts, require_same_shape


def hard_counts(probability: Probabilities, top_k: int) -> IntArray:
    """Tokens of each expert when every token goes to its ``top_k`` likeliest, int64 ``[experts]``."""
    counts: IntArray = best_experts(probability, top_k).sum(axis=0).astype(np.int64)
    return counts


def count_error(expected: FloatArray, counts: IntArray) -> float | None:
    """Sum of the absolute errors of the counts over the sum of the counts, averaged over batches.

    Parameters
    ----------
    expected
        Predicted tokens, ``[batches, experts]``.
    counts
        True tokens, int ``[batches, experts]``; batches without tokens do not count.
    """
    require_same_shape(expected, counts)
    total = counts.sum(axis=1)
    counted = total > 0
    errors = np.abs(expected - counts).sum(axis=1)
    return float((errors[counted] / total[counted]).mean()) if counted.any() else None


def volume_hits(expected: FloatArray, counts: IntArray, *, named: int = 4, among: int = 6) -> float | None:
    """Share of the ``named`` experts of most expected volume that are in the true top ``among``.

    This is how the PreScope paper counts accuracy; it is not the recall of a token's experts. The paper
    leaves ties open: here experts that tie for the last places share them, and an expert without tokens is
    never in the top.

    Parameters
    ----------
    expected
        Predicted tokens, ``[batches, experts]``.
    counts
        True tokens, int ``[batches, experts]``; batches without tokens do not count.
    named, among
        At most the number of experts is used of either.
    """
    require_same_shape(expected, counts)
    experts = counts.shape[1]
    named, among = min(named, experts), min(among, experts)
    counted = counts.sum(axis=1) > 0
    if not counted.any():
        return None
    truth = counts[counted]
    last = -np.partition(-truth, among - 1, axis=1)[:, among - 1 : among]
    above, tied = truth > last, (truth == last) & (truth > 0)
    places = among - above.sum(axis=1, keepdims=True)
    share = above + tied * np.minimum(1.0, places / np.maximum(tied.sum(axis=1, keepdims=True), 1))
    return float((share * best_experts(expected[counted], named)).sum(axis=1).mean() / named)
