"""How good a prediction was: measures, tallies over a trace, forecasts in bulk."""

from prescope.predictor.evaluation.emulation import Emulation
from prescope.predictor.evaluation.forecasts import forecasts_from_trace
from prescope.predictor.evaluation.recall import best_experts, recall_within
from prescope.predictor.evaluation.reliability import Bin, Reliability, adaptive_ece
from prescope.predictor.evaluation.score import BatchScores, score
from prescope.predictor.evaluation.skill import brier, brier_skill
from prescope.predictor.evaluation.tally import BatchTally, TokenTally
from prescope.predictor.evaluation.volume import count_error, hard_counts, volume_hits

__all__ = [
    "BatchScores",
    "BatchTally",
    "Bin",
    "Emulation",
    "Reliability",
    "TokenTally",
    "adaptive_ece",
    "best_experts",
    "brier",
    "brier_skill",
    "count_error",
    "forecasts_from_trace",
    "hard_counts",
    "recall_within",
    "score",
    "volume_hits",
]
