"""The guard: it rests prefetch that does not keep its promises, and costs a good predictor nothing."""

from dataclasses import replace

import numpy as np
import pytest
from predicted_instances import predicted_instance
from tiny_instances import make_instance, seeded

from prescope.formulation import (
    CostModel,
    Demand,
    Instance,
    LinearTime,
    Link,
    PredictedDemand,
    evaluate,
    makespan_ns,
)
from prescope.runtime.control import realise
from prescope.runtime.control.rollout import rollout
from prescope.solver.online import ExpectedPolicy, policy_code
from prescope.solver.online.expected import GUARD
from prescope.solver.online.guard import weigh

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
    guarded, _ = time_ns(wrong, GUARD)
    assert unguarded > 1.02 * without(wrong)
    assert guarded <= 1.005 * without(wrong)


def test_a_good_predictor_loses_next_to_nothing():
    instance = long_instance()
    random = np.random.default_rng(1)
    chance = np.where(instance.demand.counts > 0, 0.8, 0.2 * ACTIVE / (EXPERTS - ACTIVE))
    right = random.random(chance.shape) < 0.8
    good = said(instance, np.where(right, chance, random.permuted(chance, axis=1)))
    assert time_ns(good, 0.0)[0] < 0.95 * without(good)
    assert time_ns(good, GUARD)[0] <= 1.002 * time_ns(good, 0.0)[0]


def test_it_prefetches_again_when_the_predictor_recovers():
    instance = long_instance()
    true = (instance.demand.counts > 0) * 0.9
    half = LAYERS // 2
    recovering = said(instance, np.concatenate([(0.9 - true)[:half], true[half:]]))
    _, plan = time_ns(recovering, GUARD)
    ends = evaluate(recovering, plan).layer_end_ns
    bare = evaluate(recovering, realise(recovering, "intra-layer")).layer_end_ns
    assert ends[half - 1] <= 1.01 * bare[half - 1]
    quarter = half + half // 2
    assert ends[-1] - ends[quarter] < 0.95 * (bare[-1] - bare[quarter])


def misleading_instance(seed=0):
    """Copies on demand pay; of the pinned experts the truth is said, of the others the contrary."""
    instance = long_instance(seed)
    random = np.random.default_rng(seed)
    counts = np.zeros((LAYERS, EXPERTS), dtype=np.int64)
    for row in counts:
        row[random.choice(8, 2, replace=False)] = 1
        row[8 + random.choice(8, 4, replace=False)] = 1
    chance = np.where(counts > 0, 0.9, 0.0)
    chance[:, 8:] = 0.9 - chance[:, 8:]
    costs = replace(instance.costs, expert_bytes=(350,) * LAYERS)
    demand, pinned = Demand(counts=counts, batch_tokens=2), (tuple(range(8)),) * LAYERS
    return said(replace(instance, costs=costs, demand=demand, residents=pinned), chance)


def test_prefetch_that_loses_rests_and_the_next_step_knows():
    policy = ExpectedPolicy(guard=GUARD, waits=False)
    misleading = misleading_instance()
    first = realise(misleading, policy)
    assert policy.memory.resting
    assert policy.memory.gained_ns < 0
    assert makespan_ns(misleading, realise(misleading, "expected")) <= 1.005 * without(misleading)
    assert makespan_ns(misleading, first) <= 1.005 * without(misleading)
    assert makespan_ns(misleading, realise(misleading, ExpectedPolicy(waits=False))) > 1.02 * without(
        misleading
    )
    assert all(copy.layer == copy.gate for copy in realise(misleading, policy).transfers)


@pytest.mark.parametrize("seed", range(20))
def test_the_gain_is_known_to_the_nanosecond(seed):
    # All of it: a guard that never rests adds up what the evaluator says of two plans.
    instance = replace(predicted_instance(seed, 3), prediction_ns=(), link_ready_ns=0)
    policy = ExpectedPolicy(guard=0.999)
    plan = realise(instance, policy)
    assert not policy.memory.resting
    bare = realise(instance, "intra-layer")
    assert policy.memory.gained_ns == makespan_ns(instance, bare) - makespan_ns(instance, plan)


def test_what_has_lost_must_gain_as_much_to_be_taken_up():
    trust_ns = np.zeros(4)
    assert not weigh(trust_ns, 100, 0, 0.1)
    losses = 0
    while not weigh(trust_ns, 100, -50, 0.1):
        losses += 1
    assert 0 < losses < 20
    assert weigh(trust_ns, 100, 0, 0.1)
    lost_ns = trust_ns[3]
    gains = 0
    while weigh(trust_ns, 100, 50, 0.1):
        gains += 1
    assert gains > losses
    assert trust_ns[3] == lost_ns


def test_any_instance_stays_feasible_under_guard():
    for seed in range(60):
        instance = make_instance(seeded(seed), predictions=True)
        random = np.random.default_rng(seed)
        chance = random.random((3, *instance.demand.counts.shape))
        guessed = replace(instance, predicted=PredictedDemand(probabilities=chance, expected_tokens=chance))
        plan = realise(guessed, ExpectedPolicy(guard=0.001))
        assert plan.info.makespan_ns == makespan_ns(instance, plan)


def test_a_guard_out_of_range_is_refused():
    with pytest.raises(ValueError, match=r"expected guard in \[0, 1\), got 1.5"):
        ExpectedPolicy(guard=1.5)
