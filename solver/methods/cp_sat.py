"""The unrestricted CP-SAT model, started from the dp plan."""

from __future__ import annotations

from dataclasses import dataclass, field

from prescope.formulation.checks import require_finite
from prescope.formulation.instance import Instance
from prescope.formulation.plan import Plan
from prescope.solver.base import Draft
from prescope.solver.exact.cp_sat_session import CpSatSession
from prescope.solver.exact.first_plan import Start
from prescope.solver.methods.dp import LeadDp
from prescope.solver.result import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class CpSat:
    """Prove or improve the plan of ``dp`` with CP-SAT.

    The dp plan (itself given the hint) bounds the horizon, is hinted completely and is kept unless the solver
    finds a shorter one. With one worker and no wall limit the result depends on the seed alone. Nothing is
    promised beyond the dp plan on large instances; small ones are proved.

    Parameters
    ----------
    deterministic_time
        Default limit, in CP-SAT's own measure (about seconds).
    start
        What it starts from.
    planner
        What makes the first plan.
    symmetry
        Keep experts that are alike in one order.
    known_bound
        Tell the solver the lower bound of `prescope.solver.bound`, and leave the solver out where the first
        plan meets that. Without it the solver proves everything itself.
    """

    deterministic_time: float = 5.0
    start: Start = Start.DP
    planner: LeadDp = field(default_factory=LeadDp)
    symmetry: bool = True
    known_bound: bool = True
    name: str = "cp-sat"

    def __post_init__(self) -> None:
        require_finite("deterministic_time", self.deterministic_time, 0.0)

    def plan(self, instance: Instance, *, limits: Limits, seed: int, hint: Plan | None) -> Draft:
        """Plan a batch."""
        return CpSatSession(self, keep_room=False).plan(instance, limits=limits, seed=seed, hint=hint)

    def session(self) -> CpSatSession:
        """A session that patches its model from solve to solve."""
        return CpSatSession(self)


METHOD = CpSat()
