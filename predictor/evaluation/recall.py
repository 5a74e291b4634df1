"""How many of a token's experts a prediction names."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from prescope.formulation.checks import require_int

Probabilities = npt.NDArray[np.floating[Any]]
Chosen = npt.NDArray[np.bool_]


def best_experts(scores: Probabilities, count: int) -> Chosen:
    """The ``count`` highest of the last axis, as a mask of the same shape; equal ones by ascending id."""
    require_int("count", count, 1, scores.shape[-1])
    order = np.argsort(-scores, axis=-1, kind="stable")[..., :count]
    mask = np.zeros(scores.shape, dtype=np.bool_)
    np.put_along_axis(mask, order, True, axis=-1)
    return mask


def recall_within(probability: Probabilities, chosen: Chosen, width: int) -> float | None:
    """Share of the chosen experts that are among the ``width`` likeliest, averaged over tokens.

    Parameters
    ----------
    probability
        Probability that the token chooses the expert, ``[tokens, experts]``.
    chosen
        What it chose, bool ``[tokens, experts]``; tokens without any choice do not count.
    width
        Experts that a prediction may name; ``top_k`` gives the top-k recall.

    Returns
    -------
    float or None
        In [0, 1]; ``None`` without tokens.
    """
    require_same_shape(probability, chosen)
    number = chosen.sum(axis=1)
    hits = (chosen & best_experts(probability, width)).sum(axis=1)
    counted = number > 0
    return float((hits[counted] / number[counted]).mean()) if counted.any() else None


def require_same_shape(probability: npt.NDArray[Any], truth: npt.NDArray[Any]) -> None:
    """Refuse arrays that do not belong together.

    Raises
    ------
    ValueError
        When the shapes differ, are not ``[rows, experts]``, or a probability is NaN or infinite.
    """
    if probability.ndim != 2 or probability.shape != truth.shape or probability.shape[1] < 1:
        raise ValueError(
            f"expected prediction and truth of one shape [rows, experts], got {probability.shape} and "
            f"{truth.shape}"
        )
    if not np.isfinite(probability).all():
        raise ValueError("expected finite predictions, got NaN or infinity")
