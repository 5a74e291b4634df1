"""Instances and horizons, as far as a sweep treats them alike."""

from __future__ import annotations

import os
from typing import NamedTuple

from prescope.formulation import Instance, Plan, makespan_ns
from prescope.formulation.horizon import Horizon, HorizonPlan
from prescope.formulation.horizon_evaluator import evaluate_horizon
from prescope.instances import (
    horizon_digest,
    instance_digest,
    read_horizon_plan,
    read_plan,
    write_horizon_plan,
    write_plan,
)
from prescope.solver import lower_bound

Problem = Instance | Horizon
AnyPlan = Plan | HorizonPlan

_bounds: dict[str, int] = {}


class ProblemSize(NamedTuple):
    """Columns of a row that say how large a problem is; ``steps`` is ``None`` for an instance."""

    layers: int
    experts: int
    tokens: int
    steps: int | None


def size_of(problem: Problem) -> ProblemSize:
    """How large a problem is; the tokens of a horizon are those of its largest step."""
    if isinstance(problem, Horizon):
        tokens = max(demand.batch_tokens for demand in problem.demands)
        return ProblemSize(problem.layers, problem.experts, tokens, problem.steps)
    return ProblemSize(problem.layers, problem.experts, problem.demand.batch_tokens, None)


def foretold(problem: Problem) -> bool:
    """Whether a problem carries predictions."""
    return bool(problem.predicted)


def problem_digest(problem: Problem) -> str:
    """Digest of its content alone."""
    return horizon_digest(problem) if isinstance(problem, Horizon) else instance_digest(problem)


def cost_of(problem: Problem, plan: AnyPlan) -> int:
    """Time of a plan by the exact evaluator: makespan of an instance's, total of a horizon's.

    Raises
    ------
    ValueError
        When the plan is infeasible, or of the other kind.
    """
    if isinstance(problem, Horizon) and isinstance(plan, HorizonPlan):
        return evaluate_horizon(problem, plan).total_ns
    if isinstance(problem, Instance) and isinstance(plan, Plan):
        return makespan_ns(problem, plan)
    raise ValueError(f"expected a plan of {problem.name!r}, got a {type(plan).__name__}")


def proved_bound(problem: Problem, *, upper_ns: int | None = None) -> int:
    """The bound that prescope proves; of a horizon once per process, as it takes seconds."""
    if isinstance(problem, Instance):
        return lower_bound(problem, upper_ns=upper_ns)
    digest = horizon_digest(problem)
    if digest not in _bounds:
        from prescope.solver.residency import horizon_bound

        _bounds[digest] = horizon_bound(problem)[0]
    return _bounds[digest]


def store_plan(path: str | os.PathLike[str], plan: AnyPlan, problem: Problem) -> str:
    """Write a plan and return its checksum."""
    if isinstance(problem, Horizon) and isinstance(plan, HorizonPlan):
        return write_horizon_plan(path, plan, problem)
    if isinstance(problem, Instance) and isinstance(plan, Plan):
        return write_plan(path, plan, problem)
    raise ValueError(f"expected a plan of {problem.name!r}, got a {type(plan).__name__}")


def stored_plan(
    path: str | os.PathLike[str], problem: Problem, *, digest: str | None = None
) -> tuple[AnyPlan, str]:
    """Read a plan of this very problem, with its checksum.

    The digest of a horizon takes long enough to be worth handing over where it is known.

    Raises
    ------
    ValueError
        When the file is damaged, or for another problem.
    """
    if isinstance(problem, Horizon):
        found = read_horizon_plan(path)
        if digest is None or found.horizon_sha256 != digest:
            found.require_horizon(problem)
        return found.plan, found.sha256
    file = read_plan(path)
    file.require_instance(problem)
    return file.plan, file.sha256
