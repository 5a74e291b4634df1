"""Rising curves through knots, fitted to outcomes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def knot_sums(place: Floats, happened: npt.NDArray[Any], knots: int) -> tuple[Floats, Floats]:
    """Outcomes shared out between the two knots around each place.

    Parameters
    ----------
    place
        Where each outcome lies among the knots, in [0, knots - 1], one dimension.
    happened
        The outcomes, 0 or 1.
    knots
        At least 2.

    Returns
    -------
    weight, hits
        Outcomes and those that happened, ``[knots]`` each.
    """
    left = np.minimum(place.astype(np.int64), knots - 2)
    share = place - left
    weight = np.bincount(left, 1 - share, knots) + np.bincount(left + 1, share, knots)
    hits = np.bincount(left, (1 - share) * happened, knots) + np.bincount(left + 1, share * happened, knots)
    return weight.astype(np.float64), hits.astype(np.float64)


def between_knots(values: npt.NDArray[Any], place: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Values at places among the knots, linear between them."""
    left = np.minimum(place.astype(np.int64), values.shape[0] - 2)
    low = values[left]
    found: npt.NDArray[Any] = low + (values[left + 1] - low) * (place - left)
    return found


def rising(values: Floats, weights: Floats) -> Floats:
    """The closest never-falling sequence in weighted squares: neighbours that fall are pooled."""
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        pools.append((value, weight, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (high, before, some), (low, after, more) = pools[-2:]
            total = before + after
            pools[-2:] = [((high * before + low * after) / total, total, some + more)]
    return np.concatenate([np.full(size, value) for value, _, size in pools])
