"""Making probabilities mean what they say: of tokens, and of a batch's need of an expert."""

from prescope.predictor.calibration.batch_event import (
    BatchEvent,
    batch_load,
    batch_probability,
    batch_share,
    fit_batch_event,
)
from prescope.predictor.calibration.emulated_batches import EmulatedBatches
from prescope.predictor.calibration.token_map import apply_token_map, fit_token_map

__all__ = [
    "BatchEvent",
    "EmulatedBatches",
    "apply_token_map",
    "batch_load",
    "batch_probability",
    "batch_share",
    "fit_batch_event",
    "fit_token_map",
]
