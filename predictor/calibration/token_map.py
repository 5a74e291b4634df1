"""From a raw score to the probability that a token chooses an expert."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

KNOTS = 61
LOWEST, HIGHEST = -0.25, 1.25
"""Scores estimate a 0/1 outcome; least squares leaves the interval a little, and rarely by a quarter."""

SMALLEST, LARGEST = 1e-4, 1.0 - 1e-4
_PRIOR = 20.0


def fit_token_map(
    score: npt.NDArray[np.floating[Any]], chosen: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float32]:
    """A rising curve through equally spaced knots, fitted to outcomes.

    Parameters
    ----------
    score
        Raw scores of validation tokens, any shape, finite.
    chosen
        Whether the expert was chosen, same shape.

    Returns
    -------
    float32 ``[KNOTS]``
        Probability at the knots from `LOWEST` to `HIGHEST`, never falling, inside (0, 1).

    Raises
    ------
    ValueError
        Without scores, or when one is not finite.
    """
    values = np.asarray(score, dtype=np.float64).reshape(-1)
    happened = np.asarray(chosen, dtype=np.float64).reshape(-1)
    if not values.size or values.shape != happened.shape or not np.isfinite(values).all():
        raise ValueError(
            f"expected finite scores with an outcome each, got {values.size} and {happened.size}"
        )
    place = np.clip((values - LOWEST) / (HIGHEST - LOWEST), 0.0, 1.0) * (KNOTS - 1)
    left = np.minimum(place.astype(np.int64), KNOTS - 2)
    share = place - left
    # Each score speaks for its two neighbours; where few do, the score itself is believed.
    weight = np.bincount(left, 1 - share, KNOTS) + np.bincount(left + 1, share, KNOTS)
    hits = np.bincount(left, (1 - share) * happened, KNOTS) + np.bincount(left + 1, share * happened, KNOTS)
    believed = np.clip(np.linspace(LOWEST, HIGHEST, KNOTS), SMALLEST, LARGEST)
    raised = _rising((hits + _PRIOR * believed) / (weight + _PRIOR), weight + _PRIOR)
    return np.clip(raised, SMALLEST, LARGEST).astype(np.float32)


def apply_token_map(
    knots: npt.NDArray[np.float32], score: npt.NDArray[np.floating[Any]]
) -> npt.NDArray[np.float32]:
    """Probabilities of raw scores, same shape; linear between knots, constant beyond them."""
    place = np.clip((score - LOWEST) * ((KNOTS - 1) / (HIGHEST - LOWEST)), 0.0, KNOTS - 1.0)
    left = np.minimum(place.astype(np.int64), KNOTS - 2)
    found: npt.NDArray[np.float32] = (
        knots[left] + (knots[left + 1] - knots[left]) * (place - left).astype(np.float32)
    ).astype(np.float32)
    return found


def _rising(values: npt.NDArray[np.float64], weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The closest never-falling sequence in weighted squares: neighbours that fall are pooled."""
    pools: list[list[float]] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        pools.append([value, weight, 1])
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            value, weight, size = pools.pop()
            before = pools[-1]
            total = before[1] + weight
            pools[-1] = [(before[0] * before[1] + value * weight) / total, total, before[2] + size]
    return np.concatenate([np.full(int(size), value) for value, _, size in pools])
