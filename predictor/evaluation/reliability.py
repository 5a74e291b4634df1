"""Whether what is said to happen with probability p happens that often."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from prescope.formulation.checks import require_int

CELLS = 1000
"""Probabilities are kept to a thousandth: what a reliability table needs, in memory that does not grow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """Forecasts of similar probability.

    Parameters
    ----------
    forecasts
        How many.
    said
        Mean probability that was said.
    happened
        Share that happened.
    """

    forecasts: int
    said: float
    happened: float


class Reliability:
    """Collects probabilities and outcomes in bounded memory."""

    def __init__(self) -> None:
        self._number = np.zeros(CELLS, dtype=np.int64)
        self._said = np.zeros(CELLS)
        self._happened = np.zeros(CELLS)

    def add(self, probability: npt.NDArray[np.floating[Any]], happened: npt.NDArray[np.bool_]) -> None:
        """Count forecasts with their outcomes, two arrays of one shape.

        Raises
        ------
        ValueError
            When the shapes differ or a probability is outside [0, 1].
        """
        if probability.shape != happened.shape:
            raise ValueError(f"expected equal shapes, got {probability.shape} and {happened.shape}")
        said = np.asarray(probability, dtype=np.float64).reshape(-1)
        if said.size and not ((said >= 0) & (said <= 1)).all():
            raise ValueError(f"expected probabilities in [0, 1], got {said.min()}..{said.max()}")
        cell = np.minimum((said * CELLS).astype(np.int64), CELLS - 1)
        self._number += np.bincount(cell, minlength=CELLS)
        self._said += np.bincount(cell, weights=said, minlength=CELLS)
        self._happened += np.bincount(cell, weights=happened.reshape(-1), minlength=CELLS)

    def merge(self, other: Reliability) -> None:
        """Count what another one counted."""
        self._number += other._number
        self._said += other._said
        self._happened += other._happened

    def bins(self, count: int = 15, *, floor: float = 0.0) -> tuple[Bin, ...]:
        """Forecasts of at least ``floor``, by rising probability, in bins of about equal number.

        Parameters
        ----------
        count
            Bins at most; equal forecasts are never divided, so there may be fewer.
        floor
            Leave out smaller probabilities, to the thousandth.
        """
        require_int("count", count, 1)
        first = round(floor * CELLS)
        number = self._number[first:]
        total = int(number.sum())
        if not total:
            return ()
        # A cell belongs to the bin in which its middle forecast falls.
        middle = np.cumsum(number) - number / 2
        bin_of = np.minimum((middle / total * count).astype(np.int64), count - 1)
        sums = [
            np.bincount(bin_of, weights=values[first:], minlength=count)
            for values in (self._number, self._said, self._happened)
        ]
        return tuple(
            Bin(forecasts=int(n), said=float(said / n), happened=float(happened / n))
            for n, said, happened in zip(*sums, strict=True)
            if n
        )

    def error(self, count: int = 15, *, floor: float = 0.0) -> float | None:
        """Expected calibration error over adaptive bins: mean ``|said - happened|`` of the forecasts."""
        bins = self.bins(count, floor=floor)
        total = sum(one.forecasts for one in bins)
        if not total:
            return None
        return sum(one.forecasts * abs(one.said - one.happened) for one in bins) / total


def adaptive_ece(
    probability: npt.NDArray[np.floating[Any]],
    happened: npt.NDArray[np.bool_],
    *,
    floor: float = 0.05,
    bins: int = 15,
) -> float | None:
    """Expected calibration error of forecasts of at least ``floor`` in bins of about equal number.

    Without the floor the many experts that are surely not chosen would hide any error.
    """
    seen = Reliability()
    seen.add(probability, happened)
    return seen.error(bins, floor=floor)
