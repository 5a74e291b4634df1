"""Forecasts corrected by what came of the ones before: how often the experts of a band were really needed.

Probabilities are banded, separately for every distance ahead; in each band the sum of what was said is
compared with how many were needed, and what is said next is scaled by their quotient. Both sums fade, so that
a predictor that gets worse is believed less, and one that recovers is believed again. A predictor that is
calibrated is left as it is.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numba
import numpy as np

from prescope.formulation.demand import FloatArray, IntArray

BANDS = 16
"""Bands of the square root of the probability, of equal width: narrow where experts are unlikely."""

FADE = 0.998
"""What is left of the sums after one more layer: they look back over some 500 gates."""

DOUBT = 100.0
"""By how much what was seen must outweigh that nothing is wrong: times the square root of a band's mean, this
many needed experts count as expected besides those that were."""

# Rows of the sums.
_EXPECTED, _NEEDED, _SEEN = 0, 1, 2


class Calibration(NamedTuple):
    """What was said of the layers to come, and what came of it.

    Parameters
    ----------
    said
        Probabilities as said, by target layer (a ring) and distance, float64 ``[W + 1, W, E]``.
    target
        Layer that each row of ``said`` is about, -1 for none, int64 ``[W + 1, W]``.
    sums
        Of probabilities, experts that were needed, and experts, by distance and band, all fading; float64
        ``[3, >= W, BANDS]``. They outlive the step.
    """

    said: FloatArray
    target: IntArray
    sums: FloatArray


def new_sums(ahead: int) -> FloatArray:
    """Sums of nothing."""
    return np.zeros((3, ahead, BANDS))


def new_calibration(ahead: int, experts: int, sums: FloatArray) -> Calibration:
    """Calibration at the start of a step, with sums of the steps before."""
    return Calibration(
        said=np.zeros((ahead + 1, ahead, experts)),
        target=np.full((ahead + 1, ahead), -1, dtype=np.int64),
        sums=sums,
    )


@numba.njit(cache=True, error_model="numpy")
def learn(calibration: Calibration, layer: int, counts: IntArray) -> None:
    """Take in the true counts of a layer, int64 ``[E]``."""
    ring, rows, experts = calibration.said.shape
    place = layer % ring
    for row in range(rows):
        if calibration.target[place, row] != layer:
            continue
        said, sums = calibration.said[place, row], calibration.sums[:, row]
        for which in range(3):
            for band in range(BANDS):
                sums[which, band] *= FADE
        for expert in range(experts):
            band = _band(said[expert])
            sums[_EXPECTED, band] += said[expert]
            sums[_SEEN, band] += 1.0
            if counts[expert] > 0:
                sums[_NEEDED, band] += 1.0


@numba.njit(cache=True, error_model="numpy")
def recalibrate(
    calibration: Calibration, layer: int, probability: FloatArray, tokens: FloatArray, ahead: int
) -> None:
    """Note what is said after ``layer`` and correct it in place.

    Parameters
    ----------
    probability, tokens
        Of the ``ahead`` layers after it, float64 ``[>= ahead, E]``; the tokens given that an expert is needed
        stay the same.
    """
    ring, _, experts = calibration.said.shape
    scales = np.empty(BANDS)
    for row in range(ahead):
        place, sums = (layer + 1 + row) % ring, calibration.sums[:, row]
        calibration.target[place, row] = layer + 1 + row
        for band in range(BANDS):
            scales[band] = 1.0
            if sums[_EXPECTED, band] > 0.0:
                doubt = DOUBT * sqrt(sums[_EXPECTED, band] / sums[_SEEN, band])
                scales[band] = (sums[_NEEDED, band] + doubt) / (sums[_EXPECTED, band] + doubt)
        said = calibration.said[place, row]
        for expert in range(experts):
            chance = probability[row, expert]
            said[expert] = chance
            if chance > 0.0:
                scale = scales[_band(chance)]
                corrected = chance * scale
                if corrected > 1.0:
                    scale, corrected = 1.0 / chance, 1.0
                probability[row, expert] = corrected
                tokens[row, expert] *= scale


@numba.njit(cache=True)
def _band(chance: float) -> int:
    return min(int(sqrt(chance) * BANDS), BANDS - 1)
