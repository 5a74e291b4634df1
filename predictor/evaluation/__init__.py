"""How good a prediction was: measures, tallies over a trace, forecasts in bulk."""

from prescope.predictor.evaluation.recall import best_experts, recall_within
from prescope.predictor.evaluation.reliability import Bin, Reliability, adaptive_ece
from prescope.predictor.evaluation.skill import brier, brier_skill
from prescope.predictor.evaluation.volume import count_error, hard_counts, volume_hits

__all__ = [
    "Bin",
    "Reliability",
    "adaptive_ece",
    "best_experts",
    "brier",
    "brier_skill",
    "count_error",
    "hard_counts",
    "recall_within",
    "volume_hits",
]
