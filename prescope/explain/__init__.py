"""Why a plan does what it does: the decision, its alternatives, the prices, and what would change it."""

from prescope.explain.alternatives import Alternative, Residency
from prescope.explain.break_even import BreakEven, Lever
from prescope.explain.explanation import (
    ExpertExplanation,
    ExplainSettings,
    LayerExplanation,
    PlanExplanation,
    explain_expert,
    explain_layer,
    explain_plan,
)
from prescope.explain.facts import ExpertFacts, Place, layer_experts
from prescope.explain.layers import LayerFacts, Limit, costliest_layers, layer_facts
from prescope.explain.prices import Prices
from prescope.explain.words import expert_sentences, layer_sentences, plan_sentences

__all__ = [
    "Alternative",
    "BreakEven",
    "ExpertExplanation",
    "ExpertFacts",
    "ExplainSettings",
    "LayerExplanation",
    "LayerFacts",
    "Lever",
    "Limit",
    "Place",
    "PlanExplanation",
    "Prices",
    "Residency",
    "costliest_layers",
    "expert_sentences",
    "explain_expert",
    "explain_layer",
    "explain_plan",
    "layer_experts",
    "layer_facts",
    "layer_sentences",
    "plan_sentences",
]
