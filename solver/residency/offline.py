"""The best that is known of a horizon when all its demand is: rules tried, executed and compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter_ns

from prescope.formulation.horizon import Horizon, HorizonPlan
from prescope.formulation.horizon_evaluator import HorizonSchedule, evaluate_horizon
from prescope.solver.residency.base import ResidencyRule
from prescope.solver.residency.flow import Prices
from prescope.solver.residency.flow_rule import FlowRule
from prescope.solver.residency.rules import Belady, Static
from prescope.solver.residency.run import StepPlanner, run_horizon

PRICES = (
    Prices(cpu=0.5, gpu=0.0, link=0.5),
    Prices(cpu=1 / 3, gpu=1 / 3, link=1 / 3),
)
"""Prices that are tried; which are best differs with batch and capacity, but never by much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A rule that was executed.

    Parameters
    ----------
    label
        The rule; of flows also round and prices.
    plan, schedule
        What came of it, by the exact evaluator.
    rule_ns
        Wall time of making the rule: for flows, mostly that of the flow solver.
    """

    label: str
    plan: HorizonPlan
    schedule: HorizonSchedule
    rule_ns: int


def offline_trials(
    horizon: Horizon, plan_step: StepPlanner, *, prices: Sequence[Prices] = PRICES, rounds: int = 2
) -> Iterator[Trial]:
    """Execute static residents, Belady, and flows at every price.

    The flow takes copies and idle link time of an executed plan for granted. Its own plan has others, so
    that it is made again from that, ``rounds`` times in all; the first starts from Belady's.

    Parameters
    ----------
    horizon
        The steps.
    plan_step
        Plans one step.
    prices
        What to try.
    rounds
        Flows per price.
    """
    yield _trial(horizon, Static(), plan_step, "static", 0)
    belady = Belady([demand.counts for demand in horizon.demands])
    start = _trial(horizon, belady, plan_step, "belady", 0)
    yield start
    for price in prices:
        executed = start.plan
        for number in range(rounds):
            begin_ns = perf_counter_ns()
            rule = FlowRule(horizon, price, executed)
            rule_ns = perf_counter_ns() - begin_ns
            label = f"flow {number + 1} at {price.cpu:.2f}/{price.gpu:.2f}/{price.link:.2f}"
            trial = _trial(horizon, rule, plan_step, label, rule_ns)
            yield trial
            executed = trial.plan


def best_offline(
    horizon: Horizon, plan_step: StepPlanner, *, prices: Sequence[Prices] = PRICES, rounds: int = 2
) -> Trial:
    """The shortest of `offline_trials`: never longer than static residents or Belady's."""
    return min(
        offline_trials(horizon, plan_step, prices=prices, rounds=rounds),
        key=lambda trial: trial.schedule.total_ns,
    )


def _trial(horizon: Horizon, rule: ResidencyRule, plan_step: StepPlanner, label: str, rule_ns: int) -> Trial:
    plan = run_horizon(horizon, rule, plan_step)
    return Trial(label=label, plan=plan, schedule=evaluate_horizon(horizon, plan), rule_ns=rule_ns)
