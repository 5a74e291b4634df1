"""The probability that an expert is needed at all, from the probabilities of the batch's tokens.

Were the tokens independent it would be ``1 - exp(-load)`` with ``load = -sum log(1 - p)``. They are not:
tokens of one text, and errors of one predictor, go together. How much that changes depends on the size of
the batch and on the load itself, so the change is fitted as a curve over the load for each of a few sizes.
Where little was seen there is none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from prescope.predictor.calibration.batch_event import batch_load
from prescope.predictor.calibration.emulated_batches import EmulatedBatches
from prescope.predictor.calibration.rising import between_knots, knot_sums, rising

ANCHORS = (4, 8, 16, 32)
"""Batch sizes with a curve of their own. Between them, and down to no change for one token, curves are
blended; larger batches use the last one."""

EVENT_KNOTS = 31
LOWEST_LOAD, HIGHEST_LOAD = -6.0, 3.0
"""Logarithms of the loads at the first and the last knot."""

_LEAST_LOAD = 1e-12
# Outcomes that a knot needs before it is believed as much as independence.
_PRIOR = 100.0


def fit_event_curves(
    batches: EmulatedBatches, probability: npt.NDArray[np.floating[Any]], chosen: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float32]:
    """Changes of one source and horizon, float32 ``[anchors, EVENT_KNOTS]``, at equal steps of log load.

    Parameters
    ----------
    batches
        Emulated from validation tokens, of the sizes `ANCHORS`.
    probability, chosen
        Of those tokens, ``[tokens, experts]``.
    """
    load, happened, tokens = batches.events(probability, chosen)
    independent = -np.expm1(-np.exp(np.linspace(LOWEST_LOAD, HIGHEST_LOAD, EVENT_KNOTS)))
    changes = []
    for anchor in ANCHORS:
        same = tokens == anchor
        weight, hits = knot_sums(_place(load[same].reshape(-1)), happened[same].reshape(-1), EVENT_KNOTS)
        curve = rising((hits + _PRIOR * independent) / (weight + _PRIOR), weight + _PRIOR)
        changes.append(curve - independent)
    return np.stack(changes).astype(np.float32)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EventCurves:
    """Changes for all sources and horizons of a predictor.

    Parameters
    ----------
    changes
        What `fit_event_curves` found, ``[sources, horizons, anchors, EVENT_KNOTS]``; zeros for independent
        tokens.
    """

    changes: npt.NDArray[np.floating[Any]]

    def __post_init__(self) -> None:
        shape, wanted = self.changes.shape, (len(ANCHORS), EVENT_KNOTS)
        if len(shape) != 4 or shape[2:] != wanted or not np.isfinite(self.changes).all():
            raise ValueError(f"expected finite changes of shape [sources, horizons, *{wanted}], got {shape}")

    def apply(
        self, source: int, horizon: int, probability: npt.NDArray[np.floating[Any]]
    ) -> npt.NDArray[np.float64]:
        """Probability that each expert is needed, ``[experts]``, at most its expected tokens.

        Parameters
        ----------
        source
            Index into the changes.
        horizon
            How many layers ahead, at least 1.
        probability
            Of each token, ``[tokens, experts]``.
        """
        load = batch_load(probability)
        expected = probability.sum(axis=0, dtype=np.float64)
        change = anchor_weights(probability.shape[0]) @ self.changes[source, horizon - 1]
        needed = -np.expm1(-load) + between_knots(change, _place(load))
        found: npt.NDArray[np.float64] = np.clip(needed, 0.0, np.minimum(expected, 1.0))
        return found


def _place(load: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    log_load = np.log(np.maximum(load, _LEAST_LOAD))
    return np.clip((log_load - LOWEST_LOAD) / (HIGHEST_LOAD - LOWEST_LOAD), 0.0, 1.0) * (EVENT_KNOTS - 1)


def anchor_weights(tokens: int) -> npt.NDArray[np.float64]:
    """Weight of each anchor for a batch, ``[anchors]``: linear in its logarithm, none for one token."""
    at = np.log([1.0, *ANCHORS])
    units = np.eye(len(ANCHORS))
    where = math.log(max(tokens, 1))
    return np.array([np.interp(where, at, [0.0, *unit]) for unit in units])
