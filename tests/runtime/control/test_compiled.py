"""Compiled control against the plain one: the same waves, the same clock, whatever is forecast."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from predicted_instances import predicted_instance
from tiny_instances import make_instance, seeded

from prescope.formulation import Demand, PredictedDemand, makespan_ns
from prescope.runtime.control import CompiledStep, CostTables, OnlineStep, realise
from prescope.runtime.control.realised import forecaster, predicted_step
from prescope.runtime.control.rollout import roll_out, rollout, site_of
from prescope.solver.online import ExpectedPolicy, SplitPolicy, gate_policies, make_gate_policy, policy_code

COMPILED = [name for name in gate_policies() if policy_code(make_gate_policy(name)) is not None]


def run(kind, instance, policy):
    step = predicted_step(instance, policy, kind)
    waves = [step.start()]
    waves += [step.gate(layer, row) for layer, row in enumerate(instance.demand.counts)]
    return step, [replace(wave, predict=None) for wave in waves]


def test_the_known_policies_run_compiled():
    assert {"on-demand", "cpu-only", "intra-layer", "presched", "dp", "expected"} <= set(COMPILED)

    class Other(SplitPolicy):
        pass

    assert policy_code(Other("other", ahead=1)) is None
    with pytest.raises(ValueError, match="expected a policy with a compiled form, got 'other'"):
        run(CompiledStep, predicted_instance(1, 1), Other("other", ahead=1))


@pytest.mark.parametrize("name", COMPILED)
@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), horizons=st.integers(1, 4), spread=st.sampled_from([0.0, 0.5]))
def test_compiled_control_is_the_plain_one(name, seed, horizons, spread):
    instance = predicted_instance(seed, horizons)
    policy = ExpectedPolicy(ahead=3, spread=spread) if name == "expected" else make_gate_policy(name)
    plain, waves = run(OnlineStep, instance, policy)
    compiled, same = run(CompiledStep, instance, policy)
    assert same == waves
    assert compiled.finish() == plain.finish()
    assert compiled.link_ready_ns == plain.link_ready_ns
    rolled = rollout(instance, policy_code(policy)).plan()
    assert (rolled.layers, rolled.transfers) == (plain.finish()[1].layers, plain.finish()[1].transfers)
    assert rolled.info.makespan_ns == makespan_ns(instance, rolled)


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6))
def test_steps_in_a_row_are_one_long_instance(seed):
    # What is brought for the next step while this one runs is there: the clock and the slots go on.
    one = replace(make_instance(seeded(seed)), prediction_ns=())
    counts = np.concatenate([one.demand.counts, one.demand.counts[:, ::-1]])
    random = np.random.default_rng(seed)
    chance = random.random((2, *counts.shape))
    predicted = PredictedDemand(probabilities=chance, expected_tokens=chance * 2)
    costs = replace(
        one.costs,
        expert_bytes=one.costs.expert_bytes * 2,
        gpu=one.costs.gpu[:1],
        cpu=one.costs.cpu[:1],
        dense=one.costs.dense[:1],
    )
    long = replace(
        one,
        costs=costs,
        demand=Demand(counts=counts, batch_tokens=one.demand.batch_tokens),
        residents=one.residents * 2,
        predicted=predicted,
    )
    rolled = roll_out(
        site_of(long),
        slots=long.slots,
        counts=counts,
        probabilities=predicted.probabilities,
        expected_tokens=predicted.expected_tokens,
        code=policy_code(make_gate_policy("expected")),
        link_ready_ns=long.link_ready_ns,
    )
    plan = rolled.plan()
    assert plan.transfers == realise(long, "expected").transfers
    assert makespan_ns(long, plan) == rolled.layer_end_ns[-1]


def test_more_tokens_than_announced_are_looked_up_all_the_same():
    instance = predicted_instance(12, 2, host=True)
    counts = instance.demand.counts.copy()
    counts[-1, 0] = 5000
    bigger = replace(instance, demand=Demand(counts=counts, batch_tokens=5000), prediction_ns=())
    plain, compiled = (
        step(kind, bigger, counts)
        for step, kind in ((_announced_few, OnlineStep), (_announced_few, CompiledStep))
    )
    assert plain == compiled


def _announced_few(kind, instance, counts):
    few = replace(instance, demand=Demand(counts=counts, batch_tokens=5000))
    resident = np.zeros(counts.shape, dtype=bool)
    step = kind(
        costs=few.costs,
        tables=CostTables(few.costs),
        resident=resident,
        slots=few.slots,
        lookahead=few.lookahead,
        policy=make_gate_policy("dp"),
        forecast=forecaster(few.predicted),
        tokens=2,
        reach=few.predicted.horizons,
    )
    step.start()
    for layer, row in enumerate(counts):
        step.gate(layer, row)
    return step.finish()[1]
