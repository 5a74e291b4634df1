"""Carry a residency rule through a horizon, step by step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from prescope.formulation.evaluator import evaluate
from prescope.formulation.horizon import Horizon, HorizonPlan, Residents
from prescope.formulation.horizon_evaluator import link_left_ns
from prescope.formulation.horizon_swaps import swap_times
from prescope.formulation.instance import Instance
from prescope.formulation.plan import Plan
from prescope.solver.residency.base import ResidencyRule
from prescope.solver.residency.exchange import BoolArray, checked_scores, exchange
from prescope.solver.residency.fill import fill

StepPlanner = Callable[[Instance], Plan]


def run_horizon(
    horizon: Horizon,
    rule: ResidencyRule,
    plan_step: StepPlanner,
    *,
    per_layer: bool = False,
    fill_link: bool = True,
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
    fill_link
        Whether experts that the scores would give a place are brought while the link is idle, from their
        layer's gate on (`fill`). Where the link will be idle is taken from the finished step; with scores
        of a layer that depend on that layer's past alone nothing else is known too early.

    Returns
    -------
    HorizonPlan
        Accepted by `prescope.formulation.horizon_evaluator.evaluate_horizon`.
    """
    resident = mask(horizon.residents, horizon.experts)
    sizes = horizon.costs.expert_bytes
    plans: list[Plan] = []
    rows: list[Residents] = []
    link_ready_ns = 0
    for step, demand in enumerate(horizon.demands):
        residents = horizon.residents if step == 0 else _rows(resident)
        instance = horizon.instance(step, residents, link_ready_ns)
        plan = plan_step(instance)
        schedule = evaluate(instance, plan)
        rule.observe(demand.counts)
        said = rule.scores()
        scores = None if said is None else checked_scores(said, resident.shape)
        if scores is not None and fill_link and step + 1 < horizon.steps:
            wished = exchange(resident, np.ones_like(resident), scores, sizes, per_layer=per_layer)
            wished &= ~resident
            for copy in plan.transfers:
                wished[copy.layer, copy.expert] = False
            wishes = sorted(zip(*wished.nonzero(), strict=True), key=lambda key: -scores[key])
            keys = [(int(layer), int(expert)) for layer, expert in wishes]
            filled = fill(horizon, plan, schedule, keys, link_ready_ns=link_ready_ns)
            if filled is not plan:
                plan, schedule = filled, evaluate(instance, filled)
        plans.append(plan)
        rows.append(residents)
        link_ready_ns = link_left_ns(schedule)
        if scores is not None:
            times = swap_times(schedule, horizon.experts)
            brought = times.taken_ns >= 0
            resident = exchange(resident, brought, scores, sizes, per_layer=per_layer, times=times)
    return HorizonPlan(plans=tuple(plans), residents=tuple(rows), method=rule.name)


def mask(residents: Residents, experts: int) -> BoolArray:
    """Residents as bool ``[layers, experts]``."""
    result = np.zeros((len(residents), experts), dtype=np.bool_)
    for layer, row in enumerate(residents):
        result[layer, list(row)] = True
    return result


def _rows(resident: BoolArray) -> Residents:
    return tuple(tuple(row.nonzero()[0].tolist()) for row in resident)
