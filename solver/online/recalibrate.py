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
import numpy.typing as npt

from prescope.formulation.demand import FloatArray, IntArray

BANDS = 16
"""Bands of the square root of the probability, of equal width: narrow where experts are unlikely."""

FADE = 0.998
"""What is left of the sums after one more layer: they look back over some 500 gates."""

DOUBT = 100.0
"""By how much what was seen must outweigh that nothing is wrong: times the square root of a band's mean, this
many needed experts count as expected besides those that were."""

# Places in the sums.
_EXPECTED, _NEEDED, _SEEN = 0, 1, 2


class Calibration(NamedTuple):
    """What was said of the layers to come, and what came of it.

    Parameters
    ----------
    said, band
        Probabilities as said and their bands, by target layer (a ring) and distance, float64 and uint8
        ``[W + 1, W, E]``.
    target
        Layer that each row of ``said`` is about, -1 for none, int64 ``[W + 1, W]``.
    sums
        Of probabilities, experts that were needed, and experts, by distance and band, all fading; float64
        ``[>= W, BANDS, 3]``. They outlive the step.
    """

    said: FloatArray
    band: npt.NDArray[np.uint8]
    target: IntArray
    sums: FloatArray


def new_sums(ahead: int) -> FloatArray:
    """Sums of nothing."""
    return np.zeros((ahead, BANDS, 3))


def new_calibration(ahead: int, experts: int, sums: FloatArray) -> Calibration:
    """Calibration at the start of a step, with sums of the steps before."""
    return Calibration(
        said=np.zeros((ahead + 1, ahead, experts)),
        band=np.zeros((ahead + 1, ahead, experts), dtype=np.uint8),
        target=np.full((ahead + 1, ahead), -1, dtype=np.int64),
        sums=sums,
    )


@numba.njit(cache=True, error_model="numpy")
def learn(calibration: Calibration, layer: int, counts: IntArray) -> None:
    """Take in the true counts of a layer, int64 ``[E]``."""
    ring, rows, experts = calibration.said.shape
    place = layer % ring
    # Out of the tuple once: taking an array out counts its references.
    target, all_said = calibration.target, calibration.said
    all_bands, all_sums = calibration.band, calibration.sums
    for row in range(rows):
        if target[place, row] != layer:
            continue
        said, bands, sums = all_said[place, row], all_bands[place, row], all_sums[row]
        for band in range(BANDS):
            for which in range(3):
                sums[band, which] *= FADE
        for expert in range(experts):
            band = bands[expert]
            sums[band, _EXPECTED] += said[expert]
            sums[band, _SEEN] += 1.0
            if counts[expert] > 0:
                sums[band, _NEEDED] += 1.0


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
    scales, factors = np.empty(BANDS), np.empty(experts)
    target, all_said = calibration.target, calibration.said
    all_bands, all_sums = calibration.band, calibration.sums
    for row in range(ahead):
        place, sums = (layer + 1 + row) % ring, all_sums[row]
        target[place, row] = layer + 1 + row
        for band in range(BANDS):
            scales[band] = 1.0
            if sums[band, _EXPECTED] > 0.0:
                doubt = DOUBT * sqrt(sums[band, _EXPECTED] / sums[band, _SEEN])
                scales[band] = (sums[band, _NEEDED] + doubt) / (sums[band, _EXPECTED] + doubt)
        said, bands = all_said[place, row], all_bands[place, row]
        chances, expected = probability[row], tokens[row]
        # Loops without branches: the processor takes several experts at once.
        for expert in range(experts):
            said[expert] = chances[expert]
            bands[expert] = np.int32(min(sqrt(chances[expert]) * BANDS, BANDS - 1.0))
        most = 0.0
        for expert in range(experts):
            scale = scales[bands[expert]]
            factors[expert] = scale
            chances[expert] *= scale
            most = max(most, chances[expert])
        if most > 1.0:
            for expert in range(experts):
                if chances[expert] > 1.0:
                    chances[expert], factors[expert] = 1.0, 1.0 / said[expert]
        for expert in range(experts):
            expected[expert] *= factors[expert]
