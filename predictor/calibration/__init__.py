"""Making probabilities mean what they say: of tokens, and of a batch's need of an expert."""

from prescope.predictor.calibration.batch_event import (
    batch_load,
    batch_probability,
    batch_share,
    fit_batch_event,
)
from prescope.predictor.calibration.emulated_batches import EmulatedBatches
from prescope.predictor.calibration.event_curve import ANCHORS, EVENT_KNOTS, EventCurves, fit_event_curves
from prescope.predictor.calibration.token_map import apply_token_map, fit_token_map

__all__ = [
    "ANCHORS",
    "EVENT_KNOTS",
    "EmulatedBatches",
    "EventCurves",
    "apply_token_map",
    "batch_load",
    "batch_probability",
    "batch_share",
    "fit_batch_event",
    "fit_event_curves",
    "fit_token_map",
]
