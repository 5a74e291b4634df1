"""Carry a residency rule through a horizon, step by step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from prescope.formulation.evaluator import evaluate
from prescope.formulation.horizon import Horizon, HorizonPlan, Residents
from prescope.formulation.horizon_evaluator import landed, link_left_ns
from prescope.formulation.instance import Instance
from prescope.formulation.plan import Plan
from prescope.solver.residency.base import ResidencyRule
from prescope.solver.residency.exchange import BoolArray, exchange

StepPlanner = Callable[[Instance], Plan]


def run_horizon(
    horizon: Horizon, rule: ResidencyRule, plan_step: StepPlanner, *, per_layer: bool = False
) -> HorizonPlan:
    """Plan every step with its residents, then exchange residents by the rule's scores.

    Parameters
    ----------
    horizon
        The steps.
    rule
        Told each step's counts after it, and asked for scores.
    plan_step
        Plans one step; it sees the step's true counts, so a causal one has to look away.
    per_layer
        As for `exchange`.

    Returns
    -------
    HorizonPlan
        Accepted by `prescope.formulation.evaluate_horizon`.
    """
    resident = mask(horizon.residents, horizon.experts)
    plans: list[Plan] = []
    rows: list[Residents] = []
    link_ready_ns = 0
    for step, demand in enumerate(horizon.demands):
        residents = horizon.residents if step == 0 else _rows(resident)
        instance = horizon.instance(step, residents, link_ready_ns)
        plan = plan_step(instance)
        schedule = evaluate(instance, plan)
        plans.append(plan)
        rows.append(residents)
        link_ready_ns = link_left_ns(schedule)
        rule.observe(demand.counts)
        scores = rule.scores()
        if scores is not None:
            brought = np.zeros_like(resident)
            for key in landed(schedule):
                brought[key] = True
            resident = exchange(resident, brought, scores, horizon.costs.expert_bytes, per_layer=per_layer)
    return HorizonPlan(plans=tuple(plans), residents=tuple(rows), method=rule.name)


def mask(residents: Residents, experts: int) -> BoolArray:
    """Residents as bool ``[layers, experts]``."""
    result = np.zeros((len(residents), experts), dtype=np.bool_)
    for layer, row in enumerate(residents):
        result[layer, list(row)] = True
    return result


def _rows(resident: BoolArray) -> Residents:
    return tuple(tuple(row.nonzero()[0].tolist()) for row in resident)
