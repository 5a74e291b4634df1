"""Decisions at a running batch's gates: true counts for the layer at hand, forecasts for the next ones."""

from prescope.solver.online.expected import ExpectedPolicy
from prescope.solver.online.policies import (
    GatePolicy,
    SplitPolicy,
    gate_policies,
    make_gate_policy,
    policy_code,
)
from prescope.solver.online.state import GateDecision, GateState, LayerForecast

__all__ = [
    "ExpectedPolicy",
    "GateDecision",
    "GatePolicy",
    "GateState",
    "LayerForecast",
    "SplitPolicy",
    "gate_policies",
    "make_gate_policy",
    "policy_code",
]
