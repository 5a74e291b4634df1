"""Ask a method for a plan: of the known demand, or of what was predicted, scored under the true demand."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from time import perf_counter_ns

from prescope.bench.row import Kind
from prescope.bench.warm_up import WARM_UP_LIMITS, small_instances
from prescope.formulation import Instance, Plan, makespan_ns
from prescope.solver import Limits, Method, Result, SolverError, Statistics, get_method, lower_bound, solve
from prescope.solver.registry import BUILT_IN

GATE = "gate:"


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
        none was found within the limits.
    lower_bound_ns
        No plan for the true demand is shorter.
    time_ns
        Wall time of the method: of all its calls, where it plans at every gate.
    statistics
        How the plan came about.
    result
        The solver's own, for known demand.
    """

    kind: Kind
    plan: Plan | None
    makespan_ns: int | None
    lower_bound_ns: int
    time_ns: int
    statistics: Statistics
    result: Result | None = None


def check_method(name: str) -> None:
    """Refuse a name that is no method.

    Raises
    ------
    ValueError
        Naming those there are, or the package whose method does not load.
    """
    if name.startswith(GATE):
        from prescope.solver.online import gate_policies

        policies = gate_policies()
        if name.removeprefix(GATE) not in policies:
            raise ValueError(f"expected {GATE} with one of {', '.join(policies)}, got {name!r}")
    else:
        get_method(name)


def plan_instance(
    instance: Instance, name: str, *, limits: Limits, seed: int, hint: Plan | None, replan: Replan
) -> Planned:
    """Plan an instance by the method of a name, compiled code warm."""
    warm_up(name, instance, replan)
    return _plan(instance, name, limits=limits, seed=seed, hint=hint, replan=replan)


_warm: set[tuple[str, bool, bool]] = set()


def warm_up(name: str, instance: Instance, replan: Replan) -> None:
    """Plan small instances like this one, once per process, method and kind of instance.

    What is raised there is dropped: if the method breaks on the instance asked for, that run says so.
    """
    key = (name, instance.host_computes, instance.predicted is not None)
    if key in _warm:
        return
    _warm.add(key)
    for small in small_instances(*key[1:]):
        try:
            first = _plan(small, name, limits=WARM_UP_LIMITS, seed=0, hint=None, replan=replan)
            if first.plan is not None and first.kind is Kind.PLANNED:
                _plan(small, name, limits=WARM_UP_LIMITS, seed=0, hint=first.plan, replan=replan)
        except (Exception, SystemExit):
            continue


def _plan(
    instance: Instance, name: str, *, limits: Limits, seed: int, hint: Plan | None, replan: Replan
) -> Planned:
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
