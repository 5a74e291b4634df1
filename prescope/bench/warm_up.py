"""Loading compiled code is no part of the time to plan: every worker plans small instances first, untimed."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from prescope.formulation import Instance, PredictedDemand
from prescope.formulation.horizon import Horizon
from prescope.instances import synthetic_instance
from prescope.solver import Limits

# Enough for every part of a solver to run once.
WARM_UP_LIMITS = Limits(wall_ns=200_000_000, deterministic_time=0.1)


@cache
def small_instances(host_computes: bool, predicted: bool) -> tuple[Instance, ...]:
    """Instances of a tier: one token and several, unlimited and short lookahead, one slot."""
    machine = "lab" if host_computes else "nvme-ram"
    made = (
        synthetic_instance("mixtral-8x7b", machine, 1, 0),
        synthetic_instance("olmoe-1b-7b", machine, 8, 0),
        synthetic_instance("olmoe-1b-7b", machine, 4, 0, lookahead=1),
        synthetic_instance("olmoe-1b-7b", machine, 4, 0, slots=1),
    )
    return tuple(map(_foretold, made[:1])) if predicted else made


def small_horizons(host_computes: bool, predicted: bool) -> tuple[Horizon, ...]:
    """The small instances several times in a row, with a history long enough to learn from."""
    return tuple(
        Horizon(
            name=one.name,
            costs=one.costs,
            demands=(one.demand,) * 3,
            residents=one.residents,
            slots=one.slots,
            lookahead=one.lookahead,
            tier=one.tier,
            host_computes=one.host_computes,
            predicted=(_foretold(one).predicted or one.predicted,) * 3 if predicted else (),  # type: ignore[arg-type]
            history=((one.demand,) * 16,),
        )
        for one in small_instances(host_computes, False)[:1]
    )


def _foretold(instance: Instance) -> Instance:
    expected = instance.demand.counts[None].astype(np.float64)
    predicted = PredictedDemand(probabilities=np.minimum(expected, 1.0), expected_tokens=expected)
    return replace(instance, predicted=predicted)
