"""Who keeps a permanent place on the device: rules, the optimum for given values, and a bound."""

from prescope.solver.residency.base import ResidencyRule
from prescope.solver.residency.bound import horizon_bound
from prescope.solver.residency.exchange import exchange
from prescope.solver.residency.flow import Flow, Prices, ResidencyFlow
from prescope.solver.residency.flow_rule import FlowRule
from prescope.solver.residency.learned import Learned, untrained_rule
from prescope.solver.residency.offline import Trial, best_offline, offline_trials
from prescope.solver.residency.outlook_model import OutlookSettings, OutlookSums, fit_outlook
from prescope.solver.residency.refit import Refit
from prescope.solver.residency.rules import (
    Belady,
    LeastFrequentlyUsed,
    LeastRecentlyUsed,
    MovingAverage,
    Static,
)
from prescope.solver.residency.run import StepPlanner, run_horizon

__all__ = [
    "Belady",
    "Flow",
    "FlowRule",
    "Learned",
    "LeastFrequentlyUsed",
    "LeastRecentlyUsed",
    "MovingAverage",
    "OutlookSettings",
    "OutlookSums",
    "Prices",
    "Refit",
    "ResidencyFlow",
    "ResidencyRule",
    "Static",
    "StepPlanner",
    "Trial",
    "best_offline",
    "exchange",
    "fit_outlook",
    "horizon_bound",
    "offline_trials",
    "run_horizon",
    "untrained_rule",
]
