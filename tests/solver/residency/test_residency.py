"""Residency rules, the flow and its bound, against brute force over tiny horizons."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from brute_force import canonical_plans
from hypothesis import given
from hypothesis import strategies as st
from tiny_horizons import plan_step, tiny_horizon

from prescope.formulation import (
    CostModel,
    Demand,
    InfeasiblePlanError,
    LinearTime,
    Link,
    evaluate,
    makespan_ns,
)
from prescope.formulation.horizon import Horizon
from prescope.formulation.horizon_evaluator import evaluate_horizon, link_left_ns
from prescope.formulation.horizon_swaps import SwapTimes, swap_times, swaps_fit
from prescope.solver.residency import (
    Belady,
    FlowRule,
    LeastFrequentlyUsed,
    LeastRecentlyUsed,
    MovingAverage,
    Prices,
    Static,
    exchange,
    horizon_bound,
    run_horizon,
)


def rules(horizon):
    shape = horizon.layers, horizon.experts
    counts = [demand.counts for demand in horizon.demands]
    _, prices, _ = horizon_bound(horizon)
    return [
        Static(),
        LeastRecentlyUsed(*shape),
        LeastFrequentlyUsed(*shape),
        MovingAverage(np.full(shape, 1 / shape[1]), fixed_ns=10, per_token_ns=1),
        Belady(counts),
        FlowRule(horizon, prices, run_horizon(horizon, Static(), plan_step)),
    ]


def brute_force_total(horizon):
    """The least total of two steps: every plan of the first, every exchange, every plan of the second."""

    def plans(instance):
        for plan in canonical_plans(instance):
            try:
                yield plan, evaluate(instance, plan)
            except InfeasiblePlanError:
                continue

    first_keys = {(layer, e) for layer, row in enumerate(horizon.residents) for e in row}
    second: dict[tuple, int] = {}
    best = None
    for _, schedule in plans(horizon.instance(0, horizon.residents)):
        times = swap_times(schedule, horizon.experts)
        there = sorted(first_keys | times.landed)
        ready = link_left_ns(schedule)
        for chosen in combinations(there, len(first_keys)):
            comers, leavers = set(chosen) - first_keys, first_keys - set(chosen)
            if not swaps_fit(
                [times.taken_ns[key] for key in comers], [times.leave_ns[key] for key in leavers], 0
            ):
                continue
            residents = tuple(
                tuple(e for owner, e in chosen if owner == layer) for layer in range(horizon.layers)
            )
            key = residents, ready
            if key not in second:
                instance = horizon.instance(1, residents, ready)
                second[key] = min(schedule.makespan_ns for _, schedule in plans(instance))
            total = schedule.makespan_ns + second[key]
            best = total if best is None else min(best, total)
    return best


def test_the_bound_is_below_the_best_of_all_plans_and_every_rule_is_above():
    compared = tight = 0
    for seed in range(200):
        horizon = tiny_horizon(seed, 2, max_layers=2, max_experts=3, max_missing=2)
        uses = sum(int((demand.counts > 0).sum()) for demand in horizon.demands)
        if len(set(horizon.costs.expert_bytes)) > 1 or not 3 <= uses <= 6:
            continue
        best_ns = brute_force_total(horizon)
        bound_ns, _, _ = horizon_bound(horizon)
        assert bound_ns <= best_ns, seed
        tight += bound_ns >= 0.9 * best_ns
        for rule in rules(horizon):
            plan = run_horizon(horizon, rule, plan_step)
            assert evaluate_horizon(horizon, plan).total_ns >= bound_ns, (seed, rule.name)
        compared += 1
    assert compared >= 25
    assert tight >= compared / 4


def test_the_bound_counts_places():
    """Two experts, one place, a link too slow for every use: one of them stays on the host."""
    costs = CostModel(
        expert_bytes=(1000,),
        link=Link(bytes_per_s=10**9, latency_ns=0),
        gpu=(LinearTime(fixed_ns=1),),
        cpu=(LinearTime(fixed_ns=100),),
        dense=(LinearTime(fixed_ns=10),),
    )
    demands = (Demand(counts=np.array([[1, 1]]), batch_tokens=1),) * 20
    horizon = Horizon(name="h", costs=costs, demands=demands, residents=((0,),), slots=0, lookahead=1)
    total_ns = evaluate_horizon(horizon, run_horizon(horizon, Static(), plan_step)).total_ns
    assert total_ns == 20 * 110 and 0.9 * total_ns <= horizon_bound(horizon)[0] <= total_ns
    # With a slot, the other is copied once and both are there.
    assert horizon_bound(replace(horizon, slots=1))[0] < 0.6 * total_ns


def test_every_rule_gives_a_feasible_horizon_with_mixed_sizes():
    for seed in range(10):
        horizon = tiny_horizon(seed, 4)
        bound_ns, prices, flows = horizon_bound(horizon)
        assert sum(len(uses) for uses, _ in flows) == sum(int((d.counts > 0).sum()) for d in horizon.demands)
        assert prices.cpu == 0 or horizon.host_computes
        for rule in rules(horizon):
            assert evaluate_horizon(horizon, run_horizon(horizon, rule, plan_step)).total_ns >= bound_ns


def test_one_step_is_one_instance():
    for seed in range(30):
        horizon = tiny_horizon(seed, 1)
        instance = horizon.instance(0, horizon.residents)
        plan = run_horizon(horizon, Static(), plan_step)
        assert evaluate_horizon(horizon, plan).total_ns == makespan_ns(instance, plan.plans[0])


@given(st.integers(0, 10**6))
def test_exchange_keeps_the_best_of_all_that_are_there(seed):
    rng = np.random.default_rng(seed)
    layers, experts = rng.integers(1, 4), rng.integers(1, 6)
    resident = rng.random((layers, experts)) < 0.4
    brought = rng.random((layers, experts)) < 0.5
    scores = rng.integers(0, 4, (layers, experts)).astype(float)
    sizes = rng.integers(1, 3, layers).tolist()
    after = exchange(resident, brought, scores, sizes)
    assert not (after & ~(resident | brought)).any()
    for size in set(sizes):
        rows = [layer for layer in range(layers) if sizes[layer] == size]
        place, there = after[rows], (resident | brought)[rows]
        assert place.sum() == resident[rows].sum()
        best = np.sort(scores[rows][there])[::-1][: place.sum()]
        assert sorted(scores[rows][place]) == sorted(best)
    within = exchange(resident, brought, scores, sizes, per_layer=True)
    assert (within.sum(axis=1) == resident.sum(axis=1)).all()


def test_of_equal_ones_the_resident_stays_and_whoever_is_done_in_time_may_go():
    resident, brought = np.array([[True, False, False]]), np.array([[False, True, True]])
    assert exchange(resident, brought, np.array([[2.0, 2.0, 1.0]]), [1]).tolist() == resident.tolist()
    worth = np.array([[1.0, 2.0, 3.0]])
    for taken, kept in ((6, [False, False, True]), (5, [False, False, True]), (4, [True, False, False])):
        times = SwapTimes(taken_ns=np.array([[-1, 4, taken]]), leave_ns=np.array([[5, 0, 0]]))
        assert exchange(resident, brought, worth, [1], times=times).tolist() == [kept]


def test_belady_gives_up_whoever_is_needed_last():
    counts = [np.array([[1, 1, 0]]), np.array([[0, 0, 1]]), np.array([[0, 1, 0]]), np.array([[1, 0, 0]])]
    rule = Belady(counts)
    rule.observe(counts[0])
    assert rule.scores().tolist() == [[-3.0, -2.0, -1.0]]
    rule.observe(counts[1])
    assert rule.scores().tolist() == [[-3.0, -2.0, -5.0]]


def test_the_past_orders_lru_and_lfu():
    lru, lfu = LeastRecentlyUsed(2, 2), LeastFrequentlyUsed(2, 2)
    for counts in (np.array([[1, 0], [1, 1]]), np.array([[1, 0], [0, 1]])):
        lru.observe(counts)
        lfu.observe(counts)
    # Steps, and deeper layers later in them.
    assert lru.scores().tolist() == [[1.0, -1.0], [0.5, 1.5]]
    assert lfu.scores().tolist() == [[2, 0], [1, 2]]


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="add up to 1"):
        Prices(cpu=0.5, gpu=0.5, link=0.5)
    with pytest.raises(ValueError, match="finite scores"):
        exchange(np.ones((1, 1), bool), np.ones((1, 1), bool), np.array([[np.nan]]), [1])
    with pytest.raises(ValueError, match="decay"):
        MovingAverage(np.ones((1, 1)), fixed_ns=1, per_token_ns=1, decay=0.0)
    horizon = tiny_horizon(3, 2)
    with pytest.raises(ValueError, match="number of steps"):
        replace(horizon, demands=())
