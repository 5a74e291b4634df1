"""The rule of FreeToken as a planning method; see `prescope.solver.rules.freetoken`."""

from __future__ import annotations

from prescope.solver.rules import FreeToken, RuleMethod

METHOD = RuleMethod(FreeToken())
