"""The unrestricted CP-SAT model, started from the dp plan."""

from __future__ import annotations

from dataclasses import dataclass, field

from prescope.formulation.checks import require_finite
from prescope.formulation.evaluator import makespan_ns
from prescope.formulation.infeasible import InfeasiblePlanError
from prescope.formulation.instance import Instance
from prescope.formulation.models.cp_sat_model import build_cp_sat_model
from prescope.formulation.plan import Plan
from prescope.solver.base import Draft
from prescope.solver.bound import lower_bound
from prescope.solver.errors import SolverError
from prescope.solver.methods.dp import LeadDp
from prescope.solver.result import Limits, Statistics


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
        What makes the first plan.
    """

    deterministic_time: float = 5.0
    start: LeadDp = field(default_factory=LeadDp)
    name: str = "cp-sat"

    def __post_init__(self) -> None:
        require_finite("deterministic_time", self.deterministic_time, 0.0)

    def plan(self, instance: Instance, *, limits: Limits, seed: int, hint: Plan | None) -> Draft:
        """Plan a batch."""
        from ortools.sat.python import cp_model

        first = self.start.plan(instance, limits=limits, seed=seed, hint=hint)
        incumbent = first.plan
        if incumbent is None:
            raise SolverError(f"expected a first plan for {instance.name} from {self.start.name}, got none")
        incumbent_ns = makespan_ns(instance, incumbent)
        bound_ns = lower_bound(instance, upper_ns=incumbent_ns)
        work = limits.deterministic_time
        parameters = (("deterministic_time", str(self.deterministic_time if work is None else work)),)
        if bound_ns == incumbent_ns:
            return Draft(
                plan=incumbent,
                parameters=parameters,
                proved_bound_ns=bound_ns,
                statistics=Statistics(hint=first.statistics.hint, start_makespan_ns=incumbent_ns, branches=0),
            )
        model = build_cp_sat_model(instance, horizon_ns=incumbent_ns, lower_bound_ns=bound_ns)
        model.add_hint(incumbent)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = limits.workers
        solver.parameters.random_seed = seed
        solver.parameters.max_deterministic_time = self.deterministic_time if work is None else work
        if limits.wall_ns is not None:
            solver.parameters.max_time_in_seconds = limits.wall_ns / 1e9
        status = solver.solve(model.model)
        if status in (cp_model.MODEL_INVALID, cp_model.INFEASIBLE):
            # The incumbent is a solution of the model, so either answer means that something is broken.
            raise SolverError(
                f"expected CP-SAT to solve {instance.name}, got {solver.status_name(status)} "
                f"with a plan of {incumbent_ns} ns at hand; {model.model.validate()}"
            )
        best = incumbent
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            found = model.read_plan(solver)
            try:
                found_ns = makespan_ns(instance, found)
            except InfeasiblePlanError as error:
                raise SolverError(f"CP-SAT's plan for {instance.name} is infeasible: {error}") from error
            if found_ns > solver.objective_value:
                raise SolverError(
                    f"expected CP-SAT's plan for {instance.name} to end by {solver.objective_value} ns, "
                    f"got {found_ns}"
                )
            if found_ns < incumbent_ns:
                best = found
        return Draft(
            plan=best,
            parameters=parameters,
            proved_bound_ns=max(bound_ns, round(solver.best_objective_bound)),
            statistics=Statistics(
                hint=first.statistics.hint,
                start_makespan_ns=incumbent_ns,
                branches=solver.num_branches,
                conflicts=solver.num_conflicts,
                deterministic_time=solver.response_proto.deterministic_time,
                proved_bound_ns=round(solver.best_objective_bound),
            ),
        )


METHOD = CpSat()
