"""Tiny random horizons from a seed."""

from dataclasses import replace

import numpy as np
from tiny_instances import make_instance, seeded

from prescope.formulation import Demand, InfeasiblePlanError, PredictedDemand, Transfer, evaluate
from prescope.formulation.horizon import Horizon
from prescope.solver import Limits, get_method


def plan_step(instance):
    return get_method("dp-fast").plan(instance, limits=Limits(), seed=0, hint=None).plan


def plan_and_leave_the_link_busy(instance):
    """Copies of the last layer that nobody uses run on into the next step."""
    plan, last = plan_step(instance), instance.layers - 1
    there = {*instance.residents[last], *(copy.expert for copy in plan.transfers if copy.layer == last)}
    for expert in set(range(instance.demand.counts.shape[1])) - there:
        more = replace(plan, transfers=(*plan.transfers, Transfer(layer=last, expert=expert)))
        try:
            evaluate(instance, more)
        except InfeasiblePlanError:
            return plan
        plan = more
    return plan


def with_knowledge(horizon, seed=0):
    """The horizon with predictions that are right about most experts, and its steps reversed as history."""
    rng = np.random.default_rng(seed)
    predicted = []
    for demand in horizon.demands:
        expected = np.repeat(demand.counts[None].astype(np.float64), 2, axis=0)
        expected *= rng.random(expected.shape) < 0.8
        predicted.append(
            PredictedDemand(
                probabilities=np.minimum(expected, 1.0), expected_tokens=expected, source="a test"
            )
        )
    return replace(horizon, predicted=tuple(predicted), history=(horizon.demands[::-1],))


def tiny_horizon(seed, steps, **limits):
    pick = seeded(seed)
    instance = make_instance(pick, **limits)
    demands = [instance.demand]
    for _ in range(steps - 1):
        counts = np.array(
            [
                [pick.integer(0, instance.demand.batch_tokens) * pick.chance(50) for _ in row]
                for row in instance.demand.counts
            ]
        )
        demands.append(Demand(counts=counts, batch_tokens=instance.demand.batch_tokens))
    return Horizon(
        name="tiny",
        costs=instance.costs,
        demands=tuple(demands),
        residents=instance.residents,
        slots=max(1, instance.slots),
        lookahead=instance.lookahead,
        tier=instance.tier,
        host_computes=instance.host_computes,
    )
