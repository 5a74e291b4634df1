"""From what the gates have shown to the expected demand of coming layers."""

from prescope.predictor.base import Predictor
from prescope.predictor.moving_average import MovingAverage
from prescope.predictor.oracle import Oracle
from prescope.predictor.popularity import Popularity
from prescope.predictor.previous_step import PreviousStep
from prescope.predictor.registry import (
    PredictorContext,
    make_predictor,
    predictors,
    require_predictor,
    trained_predictors,
)
from prescope.predictor.replay import gate, replay
from prescope.predictor.stale_gate import StaleGate
from prescope.predictor.token_table import TokenTable

__all__ = [
    "MovingAverage",
    "Oracle",
    "Popularity",
    "Predictor",
    "PredictorContext",
    "PreviousStep",
    "StaleGate",
    "TokenTable",
    "gate",
    "make_predictor",
    "predictors",
    "replay",
    "require_predictor",
    "trained_predictors",
]
