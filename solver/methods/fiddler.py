"""The rule of Fiddler as a planning method; see `prescope.solver.rules.fiddler`."""

from __future__ import annotations

from prescope.solver.rules import Fiddler, RuleMethod

METHOD = RuleMethod(Fiddler())
