"""From a raw score to the probability that a token chooses an expert."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from prescope.predictor.calibration.rising import between_knots, knot_sums, rising

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
    # Each score speaks for its two neighbours; where few do, the score itself is believed.
    weight, hits = knot_sums(place, happened, KNOTS)
    believed = np.clip(np.linspace(LOWEST, HIGHEST, KNOTS), SMALLEST, LARGEST)
    raised = rising((hits + _PRIOR * believed) / (weight + _PRIOR), weight + _PRIOR)
    return np.clip(raised, SMALLEST, LARGEST).astype(np.float32)


def apply_token_map(
    knots: npt.NDArray[np.float32], score: npt.NDArray[np.floating[Any]]
) -> npt.NDArray[np.float32]:
    """Probabilities of raw scores, same shape; linear between knots, constant beyond them."""
    place = np.clip((score - LOWEST) * ((KNOTS - 1) / (HIGHEST - LOWEST)), 0.0, KNOTS - 1.0)
    return between_knots(knots, place).astype(np.float32)
