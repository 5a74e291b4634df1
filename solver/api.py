"""The one verb: an instance in, a plan with its bound and gap out."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter_ns

from prescope.formulation import InfeasiblePlanError, Instance, Plan, PlanInfo, makespan_ns
from prescope.solver.base import Method
from prescope.solver.errors import SolverError
from prescope.solver.registry import get_method
from prescope.solver.result import Limits, Result, Status


def solve(
    instance: Instance,
    *,
    method: str | Method = "dp",
    limits: Limits | None = None,
    seed: int = 0,
    hint: Plan | Result | None = None,
) -> Result:
    """Plan a batch whose demand is known.

    Parameters
    ----------
    instance
        The problem; its ``predicted`` demand is not looked at.
    method
        A name among `prescope.solver.methods`, or a method object with its own settings.
    limits
        What may be spent; ``None`` is each method's default.
    seed
        For methods with random choices; the same seed and limits (without wall time, one worker) give the
        same plan.
    hint
        A plan that may help, or a result that has one: of this instance or of another, such as the batch
        before. Methods that use it adapt it to the instance (`prescope.solver.adapt`); ``statistics`` of the
        result says what became of it. The rules ignore it.

    Returns
    -------
    Result
        With the makespan by the exact evaluator and the best lower bound known.

    Raises
    ------
    ValueError
        When the method is unknown.
    SolverError
        When the method breaks, or its plan does not fit the instance.
    """
    from prescope.solver.bound import lower_bound

    chosen = get_method(method) if isinstance(method, str) else method
    given = hint.plan if isinstance(hint, Result) else hint
    begin = perf_counter_ns()
    draft = chosen.plan(instance, limits=limits or Limits(), seed=seed, hint=given)
    time_ns = perf_counter_ns() - begin
    reached = None
    if draft.plan is not None:
        try:
            reached = makespan_ns(instance, draft.plan)
        except InfeasiblePlanError as error:
            raise SolverError(
                f"{chosen.name} made an infeasible plan for {instance.name}: {error}"
            ) from error
    begin = perf_counter_ns()
    bound = draft.proved_bound_ns
    if bound is None:
        bound = lower_bound(instance, upper_ns=reached)
    statistics = replace(draft.statistics, bound_time_ns=perf_counter_ns() - begin)
    if reached is not None and bound > reached:
        raise SolverError(
            f"expected a lower bound of {instance.name} <= {reached} by {chosen.name}, got {bound}"
        )
    plan = draft.plan
    if plan is not None:
        info = PlanInfo(
            method=chosen.name,
            parameters=draft.parameters,
            seed=seed,
            makespan_ns=reached,
            lower_bound_ns=bound,
            time_ns=time_ns,
        )
        plan = replace(plan, info=info)
    if reached is None:
        status = Status.NO_PLAN
    else:
        status = Status.OPTIMAL if reached == bound else Status.FEASIBLE
    return Result(
        method=chosen.name,
        plan=plan,
        makespan_ns=reached,
        lower_bound_ns=bound,
        status=status,
        time_ns=time_ns,
        statistics=statistics,
        incumbents=draft.incumbents,
        bounds=draft.bounds,
    )
