"""Control over a pool of rows: contents, quotas, and a clock that the exact evaluator confirms."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_instances import make_instance, seeded

from prescope.formulation import Tier, evaluate
from prescope.formulation.forecast import Forecast
from prescope.runtime.control.pool import RowPool
from prescope.runtime.control.pooled import PooledStep
from prescope.runtime.control.residency import ForwardDistanceResidency, make_residency, residencies
from prescope.runtime.control.tables import CostTables
from prescope.solver.online import make_gate_policy


def disk_instance(seed):
    instance = make_instance(seeded(seed), host=False)
    return replace(instance, tier=Tier.DISK, link_ready_ns=0)


def forecaster(instance, seed):
    random = np.random.default_rng(seed)

    def forecast(layer, horizon):
        probability = random.random(instance.experts)
        return Forecast(expected_tokens=probability * 2, probability=probability)

    return forecast


def pool_of(instance, residency, rows):
    popularity = np.random.default_rng(1).random(instance.demand.counts.shape)
    return RowPool(rows, make_residency(residency, popularity, rows=rows, scratch=2))


def run_step(instance, pool, policy, seed):
    step = PooledStep(
        costs=instance.costs,
        tables=CostTables(instance.costs),
        pool=pool,
        lookahead=2,
        policy=make_gate_policy(policy),
        forecast=forecaster(instance, seed),
        tokens=instance.demand.batch_tokens,
        experts=instance.experts,
    )
    waves = [step.start()]
    waves += [step.gate(layer, row) for layer, row in enumerate(instance.demand.counts)]
    return step, waves


@pytest.mark.parametrize("residency", residencies())
@pytest.mark.parametrize("policy", ["on-demand", "presched", "dp"])
@given(seed=st.integers(0, 10**6), rows=st.integers(1, 12))
def test_steps_in_a_row_are_feasible_and_never_cheaper_than_the_evaluator_says(residency, policy, seed, rows):
    instance = disk_instance(seed)
    pool = pool_of(instance, residency, rows)
    for step_number in range(3):
        before = {pool.owner(row) for row in range(rows)} - {None}
        step, waves = run_step(instance, pool, policy, seed + step_number)
        decided, plan = step.finish()
        assert plan.info.makespan_ns >= evaluate(decided, plan).makespan_ns
        assert [copy for wave in waves for copy in wave.copies] == list(plan.transfers)
        # What counts as held was there before the step.
        held = {(layer, expert) for layer, row in enumerate(decided.residents) for expert in row}
        assert held <= before
        # Contents and index of the pool agree.
        for row in range(rows):
            owner = pool.owner(row)
            assert owner is None or pool.row_of(owner) == row
        quota = pool.residency.quota(rows)
        if quota is not None:
            assert all(len(pool.experts_of(layer)) <= quota for layer in range(instance.layers))


def test_without_evicted_hits_the_clock_is_the_evaluators():
    exact = 0
    for seed in range(300):
        instance = disk_instance(seed)
        pool = pool_of(instance, "lru", 40)
        for _ in range(2):
            step, _ = run_step(instance, pool, "dp", seed)
            decided, plan = step.finish()
            assert plan.info.makespan_ns == evaluate(decided, plan).makespan_ns
            exact += 1
    assert exact == 600


def test_a_pool_that_holds_everything_copies_nothing_twice():
    instance = disk_instance(4)
    pool = pool_of(instance, "moving-average", instance.layers * instance.experts + 1)
    run_step(instance, pool, "on-demand", 0)
    step, waves = run_step(instance, pool, "on-demand", 1)
    assert not any(wave.copies for wave in waves)


def test_static_keeps_its_chosen_experts_and_streams_the_rest():
    popularity = np.array([[0.9, 0.8, 0.1, 0.2, 0.3]])
    pool = RowPool(4, make_residency("static", popularity, rows=4, scratch=2))
    for row, expert in enumerate((0, 1, 4, 3)):
        pool.put(row, (0, expert))
    scores = pool.residency.scores(0)
    assert pool.owner(pool.victim(0, scores, set())) == (0, 3)
    assert pool.owner(pool.victim(0, scores, {(0, 3)})) == (0, 4)
    assert pool.victim(0, scores, set(), below=0.15) is None


def test_lru_gives_up_the_longest_unused_and_per_layer_its_own():
    popularity = np.zeros((2, 3))
    for name, expected in (("lru", (1, 0)), ("layer-lru", (0, 0))):
        residency = make_residency(name, popularity, rows=4, scratch=1)
        pool = RowPool(4, residency)
        for row, key in enumerate(((0, 0), (0, 1), (1, 0), (1, 1))):
            pool.put(row, key)
        for layer, expert in ((1, 0), (0, 0), (0, 1), (1, 1)):
            residency.observe(layer, np.eye(3, dtype=np.int64)[expert])
        assert pool.owner(pool.victim(0, residency.scores(0), set())) == expected


def test_forward_distance_prefers_the_likely_and_the_near():
    residency = ForwardDistanceResidency(np.array([[0.5, 0.1], [0.5, 0.5], [0.5, 0.5]]))
    scores = residency.scores(0)
    # After layer 0, layer 1 comes next and layer 0 last; a likely expert beats a rare one of its layer.
    assert scores[1, 0] > scores[2, 0] > scores[0, 0] > scores[0, 1]
    for _ in range(100):
        residency.observe(0, np.array([0, 3]))
    scores = residency.scores(0)
    assert scores[0, 1] > scores[0, 0]


def test_refusals():
    with pytest.raises(ValueError, match="expected a residency among static, lru"):
        make_residency("fifo", np.zeros((1, 1)), rows=1, scratch=1)
    with pytest.raises(ValueError, match="at least 1 row"):
        RowPool(0, ForwardDistanceResidency(np.zeros((1, 1))))
    instance = disk_instance(4)
    step, _ = run_step(instance, pool_of(instance, "lru", 5), "dp", 0)
    with pytest.raises(ValueError, match=f"expected the gate of layer {instance.layers}"):
        step.gate(0, instance.demand.counts[0])
