"""The probability that an expert is needed at all, from the probabilities of the batch's tokens.

Were the tokens independent it would be ``1 - exp(-load)`` with ``load = -sum log(1 - p)``. They are not:
tokens of one text, and errors of one predictor, go together. So the load is corrected by two numbers per
source and horizon, fully from `FULL_BATCH` tokens on and not at all for a single one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

FULL_BATCH = 32
SUREST = 1.0 - 1e-6
"""Nobody is surer than this of a token: a batch of sure tokens must not become certainty by rounding."""
_LEAST_LOAD = 1e-12
# Keeps the two numbers where few batches were seen; worth about this many of them.
_PULL = 4.0
_FLATTEST = 0.05


def batch_load(probability: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float64]:
    """``-sum log(1 - p)`` over tokens, from ``[tokens, ...]``; the rest of the shape stays."""
    load: npt.NDArray[np.float64] = -np.log1p(-np.minimum(probability, SUREST)).sum(axis=0, dtype=np.float64)
    return load


def batch_share(tokens: int) -> float:
    """How much of the correction a batch of ``tokens`` gets, in [0, 1]."""
    return min(1.0, math.log(max(tokens, 1)) / math.log(FULL_BATCH))


def batch_probability(
    load: npt.NDArray[np.float64], tokens: int, correction: npt.NDArray[np.floating[Any]]
) -> npt.NDArray[np.float64]:
    """Probability of at least one token.

    Parameters
    ----------
    load
        As `batch_load`.
    tokens
        Tokens of the batch.
    correction
        What `fit_batch_event` found, ``[2]``; zeros for independent tokens.
    """
    log_load = np.log(np.maximum(load, _LEAST_LOAD))
    share = batch_share(tokens)
    corrected = log_load + share * (correction[0] + correction[1] * log_load)
    found: npt.NDArray[np.float64] = np.where(load > 0, -np.expm1(-np.exp(np.minimum(corrected, 30.0))), 0.0)
    return found


def fit_batch_event(
    load: npt.NDArray[np.float64],
    share: npt.NDArray[np.float64],
    happened: npt.NDArray[np.bool_],
) -> npt.NDArray[np.float64]:
    """The correction of greatest likelihood, float64 ``[2]``.

    Parameters
    ----------
    load
        Loads of experts in validation batches of several sizes, one dimension.
    share
        `batch_share` of each one's batch.
    happened
        Whether the expert had a token.

    Raises
    ------
    ValueError
        When the arrays differ in length.
    """
    if not load.shape == share.shape == happened.shape or load.ndim != 1:
        raise ValueError(
            f"expected three equally long arrays, got {load.shape}, {share.shape}, {happened.shape}"
        )
    log_load = np.log(np.maximum(load, 1e-6))
    slopes = share[:, None] * np.stack([np.ones_like(log_load), log_load], axis=1)
    correction = np.zeros(2)
    for _ in range(25):
        rate = np.exp(np.clip(log_load + slopes @ correction, -20.0, 4.0))
        missed = np.exp(-rate)
        # Derivatives of the likelihood of the complementary log-log model in its linear part.
        first = np.where(happened, rate * missed / np.maximum(1.0 - missed, 1e-12), -rate)
        expected = rate**2 * missed / np.maximum(1.0 - missed, 1e-12)
        gradient = slopes.T @ first - _PULL * correction
        curvature = (slopes * expected[:, None]).T @ slopes + _PULL * np.eye(2)
        step = np.linalg.solve(curvature, gradient)
        # A damped step cannot run away from a poor start.
        correction = correction + step * min(1.0, 1.0 / max(1e-12, float(np.abs(step).max())))
        # More load never means less need.
        correction[1] = max(correction[1], _FLATTEST - 1.0)
        if np.abs(step).max() < 1e-6:
            break
    return correction
