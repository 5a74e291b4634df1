"""The rule of Fate as a planning method; see `prescope.solver.rules.fate`."""

from __future__ import annotations

from prescope.solver.rules import Fate, RuleMethod

METHOD = RuleMethod(Fate())
