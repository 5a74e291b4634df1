"""One CP-SAT solve with its trajectory: what both kinds of CP-SAT model share."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np

from prescope.solver.exact.engine import EngineError, EngineLimits, ValueOf
from prescope.solver.trajectory import Incumbent, ProvedBound, improving_bounds, improving_incumbents

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CpSatRun:
    """How a solve went.

    Parameters
    ----------
    solver
        Holds the solution.
    optimal, found
        Whether it was solved to the end, and whether there is a solution.
    bound
        Proved lower bound, an exact integer.
    incumbents, bounds
        As they came.
    start_accepted
        Whether the first solution was the hint itself; ``None`` without a hint or a solution.
    """

    solver: cp_model.CpSolver
    optimal: bool
    found: bool
    bound: int
    incumbents: tuple[Incumbent, ...]
    bounds: tuple[ProvedBound, ...]
    start_accepted: bool | None


def run_cp_sat(
    model: cp_model.CpModel,
    limits: EngineLimits,
    *,
    hinted: bool,
    name: str,
    value_of: ValueOf | None = None,
) -> CpSatRun:
    """Solve a model that has a solution.

    With one worker, a seed and no wall limit the run is reproducible; so ``num_workers`` is always set (left
    alone it takes every core).

    Raises
    ------
    EngineError
        When CP-SAT finds the model invalid or without a solution.
    """
    from ortools.sat.python import cp_model

    begin = perf_counter_ns()
    incumbents: list[Incumbent] = []
    bounds: list[ProvedBound] = []
    first: list[str] = []

    class Watch(cp_model.CpSolverSolutionCallback):
        def on_solution_callback(self) -> None:
            now, work = perf_counter_ns() - begin, self.deterministic_time
            first.append(self.response_proto.solution_info)
            found = round(self.objective_value)
            if value_of is not None:
                found = value_of(np.array(self.response_proto.solution, dtype=np.float64))
            incumbents.append(Incumbent(time_ns=now, makespan_ns=found, deterministic_time=work))
            bounds.append(_bound(now, self.best_objective_bound, work))

    solver = cp_model.CpSolver()
    parameters: Any = solver.parameters
    parameters.num_workers = limits.workers
    parameters.random_seed = limits.seed
    parameters.relative_gap_limit = limits.relative_gap
    if limits.deterministic_time is not None:
        parameters.max_deterministic_time = limits.deterministic_time
    if limits.wall_ns is not None:
        parameters.max_time_in_seconds = limits.wall_ns / 1e9
    solver.best_bound_callback = lambda bound: bounds.append(_bound(perf_counter_ns() - begin, bound, None))
    status = solver.solve(model, Watch())
    if status in (cp_model.MODEL_INVALID, cp_model.INFEASIBLE):
        raise EngineError(
            f"expected CP-SAT to solve {name}, got {solver.status_name(status)}; {model.validate()}"
        )
    bound = max(0, round(solver.best_objective_bound))
    work = float(solver.response_proto.deterministic_time)
    bounds.append(_bound(perf_counter_ns() - begin, bound, work))
    return CpSatRun(
        solver=solver,
        optimal=status == cp_model.OPTIMAL,
        found=status in (cp_model.OPTIMAL, cp_model.FEASIBLE),
        bound=bound,
        incumbents=improving_incumbents(incumbents),
        bounds=improving_bounds(bounds),
        start_accepted="hint" in first[0] if hinted and first else None,
    )


def _bound(time_ns: int, bound: float, work: float | None) -> ProvedBound:
    return ProvedBound(time_ns=time_ns, lower_bound_ns=max(0, round(bound)), deterministic_time=work)
