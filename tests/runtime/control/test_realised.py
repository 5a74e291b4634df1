"""Realised plans: feasible, timed as the evaluator times them, and blind to what has not been said."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from predicted_instances import guesses, predicted_instance
from tiny_instances import make_instance, seeded

from prescope.formulation import Demand, PredictedDemand, makespan_ns
from prescope.runtime.control import predicted_twin, realise, realise_plan
from prescope.runtime.control.twin import rounded_counts
from prescope.solver import Limits, get_method
from prescope.solver.online import gate_policies


def known(instance, horizons):
    counts = np.broadcast_to(instance.demand.counts, (horizons, *instance.demand.counts.shape))
    return PredictedDemand(
        probabilities=(counts > 0).astype(float), expected_tokens=counts.astype(float), source="truth"
    )


def planner(name):
    def plan(instance):
        draft = get_method(name).plan(instance, limits=Limits(), seed=0, hint=None)
        assert draft.plan is not None
        return draft.plan

    return plan


METHODS = ("dp-fast", "presched", "intra-layer", "on-demand")
cases = st.tuples(st.integers(0, 10**6), st.integers(1, 4))


@pytest.mark.parametrize("policy", gate_policies())
@given(case=cases)
def test_a_realised_policy_costs_what_it_says(policy, case):
    instance = predicted_instance(*case)
    plan = realise(instance, policy)
    assert plan.info.method == policy
    assert plan.info.makespan_ns == makespan_ns(instance, plan)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=25)
@given(case=cases)
def test_a_followed_prediction_costs_what_it_says(method, case):
    instance = predicted_instance(*case)
    plan = planner(method)
    for given_plan in (plan, plan(predicted_twin(instance))):
        realised = realise_plan(instance, given_plan)
        assert realised.info.makespan_ns == makespan_ns(instance, realised)


@pytest.mark.parametrize(
    "run", [lambda case: realise(case, "dp"), lambda case: realise_plan(case, planner("dp-fast"))]
)
@settings(max_examples=30)
@given(case=cases, changed=st.integers(0, 3))
def test_what_is_done_before_a_gate_does_not_depend_on_what_it_says(run, case, changed):
    instance = predicted_instance(*case)
    layer = changed % instance.layers
    # Another truth from this layer on, and other predictions from its gate on.
    counts = instance.demand.counts.copy()
    counts[layer:] = counts[layer:, ::-1]
    other = guesses(instance, case[0] + 1, case[1])
    probability, tokens = instance.predicted.probabilities.copy(), instance.predicted.expected_tokens.copy()
    for ahead in range(case[1]):
        probability[ahead, layer + ahead + 1 :] = other.probabilities[ahead, layer + ahead + 1 :]
        tokens[ahead, layer + ahead + 1 :] = other.expected_tokens[ahead, layer + ahead + 1 :]
    changed_instance = replace(
        instance,
        demand=Demand(counts=counts, batch_tokens=instance.demand.batch_tokens),
        predicted=PredictedDemand(probabilities=probability, expected_tokens=tokens),
    )
    before, after = run(instance), run(changed_instance)
    assert before.layers[:layer] == after.layers[:layer]
    assert [copy for copy in before.transfers if copy.gate < layer] == [
        copy for copy in after.transfers if copy.gate < layer
    ]


def test_true_predictions_come_close_to_the_offline_plan():
    offline, online, followed, window, without = 0, 0, 0, 0, 0
    for seed in range(80):
        instance = make_instance(seeded(seed), host=True)
        instance = replace(instance, lookahead=4, predicted=known(instance, 4))
        plan = planner("dp")(instance)
        offline += makespan_ns(instance, plan)
        without += makespan_ns(instance, realise(instance, "intra-layer"))
        online += makespan_ns(instance, realise(instance, "dp"))
        followed += makespan_ns(instance, realise_plan(instance, plan))
        window += makespan_ns(instance, realise_plan(instance, planner("dp-fast")))
    assert offline <= min(online, followed, window)
    assert max(online, followed, window) - offline < 0.35 * (without - offline)


def test_a_twin_knows_nothing_of_the_truth():
    instance = predicted_instance(11, 2, host=True)
    twin = predicted_twin(instance)
    other = Demand(counts=instance.demand.counts[:, ::-1].copy(), batch_tokens=instance.demand.batch_tokens)
    assert predicted_twin(replace(instance, demand=other)) == twin
    assert twin.predicted is None


def test_rounding_keeps_the_number_of_experts_and_their_tokens():
    probability = np.array([0.2, 0.9, 0.0, 0.7, 0.4])
    expected = np.array([0.2, 2.7, 0.0, 0.7, 8.0])
    assert rounded_counts(probability, expected, batch_tokens=8).tolist() == [0, 3, 0, 1, 0]
    assert rounded_counts(np.ones(2), np.array([0.0, 9.0]), batch_tokens=4).tolist() == [1, 4]
    assert not rounded_counts(np.zeros(3), np.zeros(3), batch_tokens=4).any()


def test_without_predictions_nothing_is_realised():
    instance = make_instance(seeded(3))
    for run in (
        lambda: realise(instance, "dp"),
        lambda: realise_plan(instance, planner("dp-fast")),
        lambda: predicted_twin(instance),
    ):
        with pytest.raises(ValueError, match="expected predicted demand in instance .*, got none"):
            run()
    with pytest.raises(ValueError, match="expected a policy among"):
        realise(predicted_instance(3, 1), "nobody")
