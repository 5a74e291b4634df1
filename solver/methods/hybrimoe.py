"""The rule of HybriMoE as a planning method; see `prescope.solver.rules.hybrimoe`."""

from __future__ import annotations

from prescope.solver.rules import HybriMoE, RuleMethod

METHOD = RuleMethod(HybriMoE())
