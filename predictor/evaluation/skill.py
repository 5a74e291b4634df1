"""Squared error of probabilities against what a constant guess would reach."""

from __future__ import annotations

import numpy as np

from prescope.predictor.evaluation.recall import Chosen, Probabilities, require_same_shape


def brier(probability: Probabilities, chosen: Chosen) -> float | None:
    """Mean squared difference of probability and outcome; ``None`` without rows."""
    require_same_shape(probability, chosen)
    if not probability.size:
        return None
    return float(np.square(probability - chosen, dtype=np.float64).mean())


def brier_skill(probability: Probabilities, chosen: Chosen, reference: Probabilities) -> float | None:
    """One minus the ratio of Brier scores of a prediction and of a constant reference.

    1 is perfect, 0 as good as the reference, negative worse. Calibration error alone says nothing: the
    reference itself has none.

    Parameters
    ----------
    probability, chosen
        ``[rows, experts]``.
    reference
        Probability of each expert, ``[experts]``: its popularity.

    Returns
    -------
    float or None
        ``None`` without rows, or where the reference is never wrong.
    """
    own = brier(probability, chosen)
    constant = brier(np.broadcast_to(reference, chosen.shape), chosen)
    return None if own is None or not constant else 1.0 - own / constant
