"""From raw scores to calibrated forecasts of all horizons, compiled.

The same as `prescope.predictor.calibration.apply_token_map` and `EventCurves.apply`, which the tests hold
it to: called horizon by horizon from Python they would cost more than the scores.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from prescope.predictor.calibration.batch_event import SUREST
from prescope.predictor.calibration.event_curve import HIGHEST_LOAD, LOWEST_LOAD
from prescope.predictor.calibration.token_map import HIGHEST, LOWEST

Array = npt.NDArray[Any]

_SMALLEST = 1e-300


@numba.njit(cache=True)
def calibrated(scores: Array, knots: Array, changes: Array, weights: Array) -> tuple[Array, Array, Array]:
    """Token probabilities, expected tokens and batch probabilities.

    Parameters
    ----------
    scores
        Raw scores, float32 ``[tokens, horizons, experts]``.
    knots
        Token maps of the source, ``[horizons, knots]``.
    changes
        Event curves of the source, ``[horizons, anchors, event knots]``.
    weights
        Weight of each anchor for this number of tokens, ``[anchors]``.

    Returns
    -------
    probability, expected, needed
        float32 ``[horizons, tokens, experts]``, float64 ``[horizons, experts]`` twice.
    """
    tokens, horizons, experts = scores.shape
    probability = np.empty((horizons, tokens, experts), dtype=np.float32)
    expected = np.zeros((horizons, experts))
    needed = np.zeros((horizons, experts))
    steps, event_steps = knots.shape[1] - 1, changes.shape[2] - 1
    for horizon in range(horizons):
        missed = np.ones(experts)
        curve = knots[horizon]
        for token in range(tokens):
            for expert in range(experts):
                place = (scores[token, horizon, expert] - LOWEST) * (steps / (HIGHEST - LOWEST))
                place = min(max(place, 0.0), float(steps))
                left = min(int(place), steps - 1)
                said = curve[left] + (curve[left + 1] - curve[left]) * (place - left)
                probability[horizon, token, expert] = said
                expected[horizon, expert] += said
                missed[expert] *= 1.0 - min(said, SUREST)
        for expert in range(experts):
            load = -math.log(max(missed[expert], _SMALLEST))
            change = 0.0
            if load > 0.0:
                place = (math.log(load) - LOWEST_LOAD) / (HIGHEST_LOAD - LOWEST_LOAD) * event_steps
                place = min(max(place, 0.0), float(event_steps))
                left = min(int(place), event_steps - 1)
                for anchor in range(weights.shape[0]):
                    low = changes[horizon, anchor, left]
                    change += weights[anchor] * (
                        low + (changes[horizon, anchor, left + 1] - low) * (place - left)
                    )
            most = min(1.0, expected[horizon, expert])
            needed[horizon, expert] = min(max(1.0 - missed[expert] + change, 0.0), most)
    return probability, expected, needed
