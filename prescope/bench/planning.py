"""Ask a method for a plan: of the known demand, or of what was predicted, scored under the true demand."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from time import perf_counter_ns

from prescope.bench.pairs import GATE, check_pair, is_pair, looks_ahead, plan_pair
from prescope.bench.problems import AnyPlan, Problem, foretold, proved_bound
from prescope.bench.row import Kind
from prescope.bench.warm_up import WARM_UP_LIMITS, small_horizons, small_instances
from prescope.formulation import Instance, Plan, makespan_ns
from prescope.formulation.horizon import Horizon, HorizonPlan
from prescope.formulation.horizon_evaluator import HorizonSchedule, evaluate_horizon
from prescope.solver import (
    Limits,
    Method,
    Result,
    SolverError,
    Statistics,
    UnsuitableInstanceError,
    get_method,
    lower_bound,
    solve,
)
from prescope.solver.registry import BUILT_IN


class Replan(StrEnum):
    """How often a method of known demand plans an instance that is only predicted."""

    GATES = "gates"
    ONCE = "once"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What came of asking.

    Parameters
    ----------
    kind
        What the makespan is.
    plan, makespan_ns
        The plan for the instance with its true demand and what the exact evaluator says of it; ``None`` when
        none was found within the limits. Of a horizon, the total of its steps.
    lower_bound_ns
        No plan for the true demand is shorter; ``None`` where that is known beforehand.
    time_ns
        Wall time of the method: of all its calls, where it plans at every gate.
    statistics
        How the plan came about.
    result
        The solver's own, for known demand.
    steps
        Of a horizon, what the exact evaluator says of it.
    """

    kind: Kind
    plan: AnyPlan | None
    makespan_ns: int | None
    lower_bound_ns: int | None
    time_ns: int
    statistics: Statistics
    result: Result | None = None
    steps: HorizonSchedule | None = None


def check_method(name: str) -> None:
    """Refuse a name that is no method.

    Raises
    ------
    ValueError
        Naming those there are, or the package whose method does not load.
    """
    if is_pair(name):
        check_pair(name)
    elif name.startswith(GATE):
        from prescope.solver.online import gate_policies

        policies = gate_policies()
        if name.removeprefix(GATE) not in policies:
            raise ValueError(f"expected {GATE} with one of {', '.join(policies)}, got {name!r}")
    else:
        get_method(name)


def plan_problem(
    problem: Problem,
    name: str,
    *,
    limits: Limits,
    seed: int,
    hint: Plan | None,
    replan: Replan,
    bounded: bool = False,
) -> Planned:
    """Plan an instance or a horizon by the method of a name, compiled code warm.

    The bound of a horizon takes seconds: it is left out where one is known (``bounded``).
    """
    warm_up(name, problem, replan)
    if isinstance(problem, Instance):
        return _plan(problem, name, limits=limits, seed=seed, hint=hint, replan=replan)
    plan, kind, time_ns = _plan_horizon(problem, name, limits, seed)
    steps = evaluate_horizon(problem, plan)
    begin = perf_counter_ns()
    bound_ns = None if bounded else proved_bound(problem)
    return Planned(
        kind=kind,
        plan=plan,
        makespan_ns=steps.total_ns,
        lower_bound_ns=bound_ns,
        time_ns=time_ns,
        statistics=Statistics(bound_time_ns=None if bounded else perf_counter_ns() - begin),
        steps=steps,
    )


def _plan_horizon(horizon: Horizon, name: str, limits: Limits, seed: int) -> tuple[HorizonPlan, Kind, int]:
    if not is_pair(name):
        raise UnsuitableInstanceError(
            f"expected a rule and a planner, such as static+{name}, for {horizon.name}, got {name!r}"
        )
    plan, time_ns = plan_pair(horizon, name, limits=limits, seed=seed)
    return plan, Kind.PLANNED if looks_ahead(name) else Kind.REALISED, time_ns


_warm: set[tuple[str, bool, bool, bool]] = set()


def warm_up(name: str, problem: Problem, replan: Replan) -> None:
    """Plan small instances like this one, once per process, method and kind of instance.

    What is raised there is dropped: if the method breaks on the instance asked for, that run says so.
    """
    key = (name, isinstance(problem, Horizon), problem.host_computes, foretold(problem))
    if key in _warm:
        return
    _warm.add(key)
    if isinstance(problem, Horizon):
        for row in small_horizons(*key[2:]):
            with suppress(Exception, SystemExit):
                _plan_horizon(row, name, WARM_UP_LIMITS, 0)
        return
    for small in small_instances(*key[2:]):
        try:
            first = _plan(small, name, limits=WARM_UP_LIMITS, seed=0, hint=None, replan=replan)
            if isinstance(first.plan, Plan) and first.kind is Kind.PLANNED:
                _plan(small, name, limits=WARM_UP_LIMITS, seed=0, hint=first.plan, replan=replan)
        except (Exception, SystemExit):
            continue


def _plan(
    instance: Instance, name: str, *, limits: Limits, seed: int, hint: Plan | None, replan: Replan
) -> Planned:
    if is_pair(name):
        raise UnsuitableInstanceError(f"expected a horizon for {name}, got the instance {instance.name}")
    if instance.predicted is None:
        if name.startswith(GATE):
            raise ValueError(f"expected an instance with predicted demand for {name}, got {instance.name}")
        result = solve(instance, method=get_method(name), limits=limits, seed=seed, hint=hint)
        bound_ns = result.lower_bound_ns
        if name not in BUILT_IN:
            # What another package's method calls proved is its word; others are measured by this bound.
            bound_ns = lower_bound(instance, upper_ns=result.makespan_ns)
        return Planned(
            kind=Kind.PLANNED,
            plan=result.plan,
            makespan_ns=result.makespan_ns,
            lower_bound_ns=bound_ns,
            time_ns=result.time_ns,
            statistics=result.statistics,
            result=result,
        )
    from prescope.runtime.control import realise, realise_plan

    begin = perf_counter_ns()
    if name.startswith(GATE):
        plan, kind = realise(instance, name.removeprefix(GATE)), Kind.REALISED
        time_ns = perf_counter_ns() - begin
    else:
        planner = _Planner(get_method(name), limits, seed)
        if replan is Replan.GATES:
            plan, kind = realise_plan(instance, planner), Kind.REALISED
        else:
            plan, kind = realise_plan(instance, planner.once(instance)), Kind.FOLLOWED
        time_ns = planner.time_ns
    return Planned(
        kind=kind,
        plan=plan,
        makespan_ns=makespan_ns(instance, plan),
        lower_bound_ns=lower_bound(instance),
        time_ns=time_ns,
        statistics=Statistics(),
    )


class _Planner:
    """Calls a method on what is predicted and adds up its time."""

    def __init__(self, method: Method, limits: Limits, seed: int) -> None:
        self._method, self._limits, self._seed = method, limits, seed
        self.time_ns = 0

    def __call__(self, instance: Instance) -> Plan:
        begin = perf_counter_ns()
        draft = self._method.plan(instance, limits=self._limits, seed=self._seed, hint=None)
        self.time_ns += perf_counter_ns() - begin
        if draft.plan is None:
            raise SolverError(f"expected a plan for a predicted batch of {instance.name}, got none in time")
        return draft.plan

    def once(self, instance: Instance) -> Plan:
        """Plan the whole predicted batch before it begins."""
        from prescope.runtime.control import predicted_twin

        return self(predicted_twin(instance))
