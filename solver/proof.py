"""Proofs by the unrestricted CP-SAT model alone: independent of the planners and of the lower bound."""

from __future__ import annotations

from dataclasses import dataclass

from prescope.formulation.checks import require_finite
from prescope.formulation.evaluator import makespan_ns
from prescope.formulation.instance import Instance
from prescope.formulation.models.cp_sat_model import build_cp_sat_model
from prescope.formulation.plan import Plan
from prescope.solver.errors import SolverError

PROOF_TIME = 2.0
"""Deterministic time after which CP-SAT gives up, in its own measure (about seconds)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What CP-SAT proved.

    Parameters
    ----------
    lower_bound_ns
        No plan is shorter.
    plan
        The best plan: the one given, or a shorter one that the solver found.
    makespan_ns
        Its makespan by the exact evaluator.
    deterministic_time
        Work done, in CP-SAT's measure.
    """

    lower_bound_ns: int
    plan: Plan
    makespan_ns: int
    deterministic_time: float

    @property
    def optimal(self) -> bool:
        """Whether the plan is proved optimal."""
        return self.lower_bound_ns == self.makespan_ns


def prove(instance: Instance, plan: Plan, *, deterministic_time: float = PROOF_TIME, seed: int = 0) -> Proof:
    """Prove a bound on all plans, with one worker, reproducibly.

    The model is given no bound of ours, and the plan only as a hint and as the latest end of interest.

    Parameters
    ----------
    instance, plan
        A problem and a feasible plan for it.
    deterministic_time
        Limit, in CP-SAT's measure.
    seed
        Of the solver.

    Raises
    ------
    InfeasiblePlanError
        When the plan does not fit the instance.
    SolverError
        When the solver contradicts the evaluator.
    """
    from ortools.sat.python import cp_model

    require_finite("deterministic_time", deterministic_time, 0.0)
    best_ns = makespan_ns(instance, plan)
    model = build_cp_sat_model(instance, horizon_ns=best_ns)
    model.add_hint(plan)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = seed
    solver.parameters.max_deterministic_time = deterministic_time
    status = solver.solve(model.model)
    if status in (cp_model.MODEL_INVALID, cp_model.INFEASIBLE):
        raise SolverError(
            f"expected CP-SAT to solve {instance.name}, got {solver.status_name(status)} "
            f"with a plan of {best_ns} ns at hand"
        )
    best = plan
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        found = model.read_plan(solver)
        found_ns = makespan_ns(instance, found)
        if found_ns < best_ns:
            best, best_ns = found, found_ns
    return Proof(
        lower_bound_ns=max(0, round(solver.best_objective_bound)),
        plan=best,
        makespan_ns=best_ns,
        deterministic_time=solver.response_proto.deterministic_time,
    )
