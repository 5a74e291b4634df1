"""Who keeps a permanent place on the device: rules, the optimum for given values, and a bound."""

from prescope.solver.residency.auto import prefers_average
from prescope.solver.residency.base import ResidencyRule
from prescope.solver.residency.bound import horizon_bound
from prescope.solver.residency.exchange import exchange
from prescope.solver.residency.flow import Flow, Prices, ResidencyFlow
from prescope.solver.residency.flow_rule import FlowRule
from prescope.solver.residency.gate_average import GateAverage
from prescope.solver.residency.gate_learned import GateLearned
from prescope.solver.residency.gate_rules import GateRule, StepwiseRule
from prescope.solver.residency.learned import Learned, untrained_rule
from prescope.solver.residency.offline import Trial, best_offline, offline_trials
from prescope.solver.residency.outlook_model import OutlookSettings, OutlookSums, fit_outlook
from prescope.solver.residency.refit import Refit
from prescope.solver.residency.registry import plan_horizon, residency_rules
from prescope.solver.residency.rules import (
    Belady,
    LeastFrequentlyUsed,
    LeastRecentlyUsed,
    MovingAverage,
    Static,
)
from prescope.solver.residency.run import StepPlanner, run_horizon
from prescope.solver.residency.setting import RuleSetting, rule_setting
from prescope.solver.residency.trace_outlook import outlook_of_trace

__all__ = [
    "Belady",
    "Flow",
    "FlowRule",
    "GateAverage",
    "GateLearned",
    "GateRule",
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
    "RuleSetting",
    "Static",
    "StepPlanner",
    "StepwiseRule",
    "Trial",
    "best_offline",
    "exchange",
    "fit_outlook",
    "horizon_bound",
    "offline_trials",
    "plan_horizon",
    "outlook_of_trace",
    "prefers_average",
    "residency_rules",
    "rule_setting",
    "run_horizon",
    "untrained_rule",
]
