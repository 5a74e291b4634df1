"""Methods of horizons: a residency rule and what plans each step, such as ``learned+expected``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import perf_counter_ns
from typing import TYPE_CHECKING

from prescope.formulation import Instance, Plan
from prescope.formulation.horizon import Horizon, HorizonPlan
from prescope.solver import Limits, SolverError, UnsuitableInstanceError, get_method, methods

if TYPE_CHECKING:
    StepPlanner = Callable[[Instance], Plan]

PLUS = "+"
GATE = "gate:"


def is_pair(name: str) -> bool:
    """Whether a name is that of a rule and a planner."""
    return PLUS in name


def check_pair(name: str) -> None:
    """Refuse a name whose rule or planner does not exist.

    Raises
    ------
    ValueError
        Naming those there are, or the package whose part does not load.
    """
    from prescope.solver.residency.registry import check_rule

    rule, planner = split_pair(name)
    check_rule(rule)
    if gate_policy(planner) is None:
        try:
            get_method(planner)
        except ValueError as error:
            raise ValueError(f"{error}; or a gate policy, {GATE}POLICY, to plan the steps") from None


def split_pair(name: str) -> tuple[str, str]:
    """Rule and planner of a name.

    Raises
    ------
    ValueError
        When either is missing.
    """
    rule, _, planner = name.partition(PLUS)
    if not rule or not planner:
        from prescope.solver.residency.registry import residency_rules

        raise ValueError(
            f"expected RULE+PLANNER, such as learned+expected or static+dp-fast, got {name!r}; rules are "
            f"{', '.join(residency_rules())}, planners methods and gate policies"
        )
    return rule, planner


def gate_policy(planner: str) -> str | None:
    """The gate policy that a planner's name means, ``None`` where it is a method of known demand.

    ``expected`` is short for ``gate:expected``; names that methods have too mean the methods.

    Raises
    ------
    ValueError
        When the policy does not exist.
    """
    from prescope.solver.online import gate_policies

    policy = planner.removeprefix(GATE)
    if planner.startswith(GATE) and policy not in gate_policies():
        raise ValueError(f"expected {GATE} with one of {', '.join(gate_policies())}, got {planner!r}")
    if planner.startswith(GATE) or (policy in gate_policies() and policy not in methods()):
        return policy
    return None


def looks_ahead(name: str) -> bool:
    """Whether a pair knows demand before it shows: that of the coming steps, or that of a whole step."""
    from prescope.solver.residency.registry import knows_demand

    rule, planner = split_pair(name)
    return gate_policy(planner) is None or knows_demand(rule)


def plan_pair(horizon: Horizon, name: str, *, limits: Limits, seed: int) -> tuple[HorizonPlan, int]:
    """Plan a horizon by a rule and a planner.

    Returns
    -------
    plan, time_ns
        The plan, and the wall time that rule and planner took, exchanges and the evaluation of every step
        between them included.

    Raises
    ------
    UnsuitableInstanceError
        When the horizon lacks predictions or a history that the method needs.
    """
    from prescope.solver.residency.registry import plan_horizon

    rule, planner = split_pair(name)
    plan_step = _step_planner(horizon, planner, limits, seed)
    begin = perf_counter_ns()
    plan = plan_horizon(horizon, rule, plan_step)
    return replace(plan, method=name), perf_counter_ns() - begin


def _step_planner(horizon: Horizon, planner: str, limits: Limits, seed: int) -> StepPlanner:
    policy = gate_policy(planner)
    if policy is not None:
        if not horizon.predicted:
            raise UnsuitableInstanceError(
                f"expected a horizon with predictions for {planner}, got {horizon.name} without; "
                "build it with --predictor, or plan its steps by a method of known demand such as dp-fast"
            )
        from prescope.runtime.control import realise

        return lambda instance: realise(instance, policy)
    method = get_method(planner)

    def plan_step(instance: Instance) -> Plan:
        # The demand of the step is known: predictions say nothing new.
        known = replace(instance, predicted=None)
        plan = method.plan(known, limits=limits, seed=seed, hint=None).plan
        if plan is None:
            raise SolverError(
                f"expected a plan of {instance.name} from {planner}, got none within the limits"
            )
        return plan

    return plan_step
