"""How good a predictor is on recorded routing, and what it is worth to a planner."""

from prescope.evaluation.planning import PlanRow
from prescope.evaluation.run import Evaluation, PredictorScores, evaluate_predictor
from prescope.evaluation.settings import BASELINES, EvaluateSettings

__all__ = ["BASELINES", "EvaluateSettings", "Evaluation", "PlanRow", "PredictorScores", "evaluate_predictor"]
