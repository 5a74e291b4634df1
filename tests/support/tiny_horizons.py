"""Tiny random horizons from a seed."""

import numpy as np
from tiny_instances import make_instance, seeded

from prescope.formulation import Demand
from prescope.formulation.horizon import Horizon
from prescope.solver import Limits, get_method


def plan_step(instance):
    return get_method("dp-fast").plan(instance, limits=Limits(), seed=0, hint=None).plan


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
