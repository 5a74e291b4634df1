"""Filling the link's idle time: nothing else moves, and what is wished lands."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_horizons import plan_step, tiny_horizon

from prescope.formulation import CostModel, Demand, LayerPlan, LinearTime, Link, Plan, Transfer, evaluate
from prescope.formulation.horizon import Horizon
from prescope.formulation.horizon_swaps import swap_times
from prescope.formulation.schedule import Lane, TaskKind
from prescope.solver.residency.fill import fill


def others(schedule, wishes):
    return [
        task
        for task in schedule.tasks
        if task.kind is not TaskKind.COPY or (task.layer, task.expert) not in wishes
    ]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_filling_moves_nothing_and_all_granted_wishes_land(seed):
    horizon = tiny_horizon(seed, 1)
    instance = horizon.instance(0, horizon.residents)
    plan = plan_step(instance)
    schedule = evaluate(instance, plan)
    taken = {(copy.layer, copy.expert) for copy in plan.transfers}
    free = [
        (layer, expert)
        for layer in range(horizon.layers)
        for expert in range(horizon.experts)
        if expert not in horizon.residents[layer] and (layer, expert) not in taken
    ]
    wishes = [free[index] for index in np.random.default_rng(seed).permutation(len(free))]
    filled = fill(horizon, plan, schedule, wishes)
    after = evaluate(instance, filled)
    assert filled.layers == plan.layers
    assert others(after, wishes) == others(schedule, wishes)
    granted = {(copy.layer, copy.expert) for copy in filled.transfers} - taken
    assert granted <= swap_times(after, horizon.experts).landed
    assert granted <= set(wishes)


def test_an_idle_link_brings_whoever_fits():
    counts = np.array([[1, 1, 0], [1, 0, 0]])
    costs = CostModel(
        expert_bytes=(10, 10),
        link=Link(bytes_per_s=10**9, latency_ns=0),
        gpu=(LinearTime(fixed_ns=2),),
        cpu=(LinearTime(fixed_ns=15),),
        dense=(LinearTime(fixed_ns=5),),
    )
    horizon = Horizon(
        name="h", costs=costs, demands=(Demand(counts=counts, batch_tokens=1),), residents=((), ()),
        slots=1, lookahead=0,
    )  # fmt: skip
    plan = Plan(layers=(LayerPlan(cpu=(0, 1)), LayerPlan(cpu=(0,))))
    instance = horizon.instance(0, horizon.residents)
    schedule = evaluate(instance, plan)
    assert schedule.makespan_ns == 55
    filled = fill(horizon, plan, schedule, [(1, 2), (0, 0), (0, 1), (0, 2), (1, 1), (1, 0)])
    # Layer 1 is known from 40 on, until then only layer 0; what would not land before the end stays away.
    assert [(copy.layer, copy.expert) for copy in filled.transfers] == [(0, 0), (0, 1), (0, 2), (1, 2)]
    ends = [task.end_ns for task in evaluate(instance, filled).lane(Lane.LINK)]
    assert ends == [15, 25, 35, 50]
    late = fill(horizon, plan, schedule, [(0, 0)], link_ready_ns=46)
    assert late.transfers == ()
    assert len(fill(horizon, plan, schedule, [(0, 0)], link_ready_ns=45).transfers) == 1
    # A copy that nobody uses holds the only slot until its gate, at 40.
    useless = replace(plan, transfers=(Transfer(layer=1, expert=2),))
    early = replace(horizon, lookahead=2)
    instance = early.instance(0, early.residents)
    filled = fill(early, useless, evaluate(instance, useless), [(0, 0), (0, 1), (0, 2)])
    assert [(copy.layer, copy.expert) for copy in filled.transfers] == [(1, 2), (0, 0)]
    assert [task.end_ns for task in evaluate(instance, filled).lane(Lane.LINK)] == [10, 50]
