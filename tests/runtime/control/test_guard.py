"""The guard: it rests prefetch that does not keep its promises, and costs a good predictor nothing."""

from dataclasses import replace

import numpy as np
import pytest
from tiny_instances import make_instance, seeded

from prescope.formulation import CostModel, Demand, Instance, LinearTime, Link, PredictedDemand, makespan_ns
from prescope.runtime.control import realise
from prescope.runtime.control.rollout import rollout
from prescope.solver.online import ExpectedPolicy, policy_code

LAYERS, EXPERTS, ACTIVE = 400, 16, 4


def long_instance(seed=0):
    """Many layers of four experts each, of which the link can bring about one in time."""
    random = np.random.default_rng(seed)
    counts = np.zeros((LAYERS, EXPERTS), dtype=np.int64)
    for row in counts:
        row[random.choice(EXPERTS, ACTIVE, replace=False)] = 1
    costs = CostModel(
        expert_bytes=(700,) * LAYERS,
        link=Link(bytes_per_s=10**9),
        gpu=(LinearTime(fixed_ns=20),),
        cpu=(LinearTime(fixed_ns=400),),
        dense=(LinearTime(fixed_ns=300),),
        source="a test",
    )
    return Instance(
        name="long",
        costs=costs,
        demand=Demand(counts=counts, batch_tokens=1),
        residents=((),) * LAYERS,
        slots=4,
        lookahead=4,
    )


def said(instance, chance):
    stacked = np.broadcast_to(chance, (4, *chance.shape))
    return replace(instance, predicted=PredictedDemand(probabilities=stacked, expected_tokens=stacked))


def time_ns(instance, guard):
    plan = rollout(instance, policy_code(ExpectedPolicy(guard=guard))).plan()
    return makespan_ns(instance, plan), plan


def without(instance):
    return makespan_ns(instance, realise(instance, "intra-layer"))


def test_a_predictor_that_is_always_wrong_costs_next_to_nothing():
    instance = long_instance()
    wrong = said(instance, np.where(instance.demand.counts > 0, 0.0, 0.9))
    unguarded, _ = time_ns(wrong, 0.0)
    guarded, plan = time_ns(wrong, 0.6)
    assert unguarded > 1.02 * without(wrong)
    assert guarded <= 1.002 * without(wrong)
    # Once it rests, nothing is brought ahead any more.
    assert all(copy.layer == copy.gate for copy in plan.transfers if copy.gate > 50)


def test_a_good_predictor_loses_next_to_nothing():
    instance = long_instance()
    random = np.random.default_rng(1)
    chance = np.where(instance.demand.counts > 0, 0.8, 0.2 * ACTIVE / (EXPERTS - ACTIVE))
    right = random.random(chance.shape) < 0.8
    good = said(instance, np.where(right, chance, random.permuted(chance, axis=1)))
    assert time_ns(good, 0.0)[0] < 0.95 * without(good)
    assert time_ns(good, 0.6)[0] <= 1.002 * time_ns(good, 0.0)[0]


def test_it_prefetches_again_when_the_predictor_recovers():
    instance = long_instance()
    true = (instance.demand.counts > 0) * 0.9
    wrong = 0.9 - true
    half = LAYERS // 2
    recovering = said(instance, np.concatenate([wrong[:half], true[half:]]))
    _, plan = time_ns(recovering, 0.6)
    late_copies = [copy for copy in plan.transfers if copy.layer > copy.gate >= half + 100]
    resting = [copy for copy in plan.transfers if 60 <= copy.gate < half and copy.layer > copy.gate]
    assert not resting
    assert len(late_copies) > 50


def test_the_guard_learns_across_steps():
    policy = ExpectedPolicy(guard=0.6)
    instance = long_instance()
    realise(said(instance, np.where(instance.demand.counts > 0, 0.0, 0.9)), policy)
    assert policy.trust_ns[1] < 0.6 * policy.trust_ns[0]
    wrong_again = said(instance, np.where(instance.demand.counts > 0, 0.0, 0.9))
    assert all(copy.layer == copy.gate for copy in realise(wrong_again, policy).transfers)


def test_any_instance_stays_feasible_under_guard():
    for seed in range(60):
        instance = make_instance(seeded(seed), predictions=True)
        random = np.random.default_rng(seed)
        chance = random.random((3, *instance.demand.counts.shape))
        guessed = replace(instance, predicted=PredictedDemand(probabilities=chance, expected_tokens=chance))
        plan = realise(guessed, ExpectedPolicy(guard=0.9))
        assert plan.info.makespan_ns == makespan_ns(instance, plan)


def test_a_guard_out_of_range_is_refused():
    with pytest.raises(ValueError, match=r"expected guard in \[0, 1\), got 1.5"):
        ExpectedPolicy(guard=1.5)
