"""Compact mixed-integer models: numbers of copies per layer, by a general solver."""

from __future__ import annotations

from dataclasses import dataclass, field

from prescope.formulation.checks import require_finite, require_int
from prescope.formulation.instance import Instance
from prescope.formulation.models.compact_model import Form
from prescope.formulation.models.layer_functions import Tables
from prescope.formulation.plan import Plan
from prescope.solver.base import Draft
from prescope.solver.exact.compact_session import CompactSession
from prescope.solver.exact.engines import engines
from prescope.solver.exact.first_plan import Start
from prescope.solver.methods.dp import LeadDp
from prescope.solver.result import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Milp:
    """Choose numbers of copies by a compact model, then let the exact evaluator judge.

    The solution's counts become a plan (heaviest first), a short descent improves it, and it is kept if it is
    shorter than the first plan. With `Tables.BOUND` the model's bound is a lower bound of the instance's
    (`prescope.formulation.models.compact_model` has the proof); with `Tables.PLAN` only where both tables
    coincide, and then it is reported as well. Relaxations prove their bound in whole numbers, ``cp-sat`` is
    exact, the other engines' tree bounds are reported less a margin of 2e-6.

    Parameters
    ----------
    form, tables
        Which model.
    engine
        A name among `prescope.solver.exact.engines.engines`; ``None`` is HiGHS, whichever is installed.
    relax
        Solve the linear programme only: a bound and a rounded plan in milliseconds.
    relative_gap
        Stop the search this near to the optimum.
    nodes
        Limit of the tree search, so that it is reproducible; not for ``cp-sat``.
    deterministic_time
        Default limit of ``cp-sat``.
    start, planner
        What it starts from.
    known_bound
        Leave the solver out where the first plan meets the lower bound of `prescope.solver.bound`.
    descent_effort
        Experts simulated by the descent from the solution; 0 for none.
    """

    form: Form = Form.TABLE
    tables: Tables = Tables.BOUND
    engine: str | None = None
    relax: bool = False
    relative_gap: float = 1e-5
    nodes: int = 100
    deterministic_time: float = 5.0
    start: Start = Start.DP
    planner: LeadDp = field(default_factory=LeadDp)
    known_bound: bool = True
    descent_effort: int = 200_000
    name: str = "milp"

    def __post_init__(self) -> None:
        if self.engine is not None and self.engine not in engines():
            raise ValueError(f"expected an engine among {', '.join(engines())}, got {self.engine!r}")
        if self.relax and self.engine == "cp-sat":
            raise ValueError("expected an engine with linear programmes for relax=True, got 'cp-sat'")
        require_finite("relative_gap", self.relative_gap, 0.0)
        require_int("nodes", self.nodes, 1)
        require_finite("deterministic_time", self.deterministic_time, 0.0)
        require_int("descent_effort", self.descent_effort, 0)

    def plan(self, instance: Instance, *, limits: Limits, seed: int, hint: Plan | None) -> Draft:
        """Plan a batch."""
        session = CompactSession(self, keep_room=False)
        try:
            return session.plan(instance, limits=limits, seed=seed, hint=hint)
        finally:
            session.close()

    def session(self) -> CompactSession:
        """A session that patches its model from solve to solve."""
        return CompactSession(self)


METHOD = Milp()
RELAXED = Milp(relax=True, form=Form.FLUID, name="milp-relaxed")
CP_SAT = Milp(engine="cp-sat", name="cp-sat-table")
