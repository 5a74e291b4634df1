"""The rule of Klotski as a planning method; see `prescope.solver.rules.klotski`."""

from __future__ import annotations

from prescope.solver.rules import Klotski, RuleMethod

METHOD = RuleMethod(Klotski())
