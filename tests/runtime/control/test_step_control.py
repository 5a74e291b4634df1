"""The controllers against the exact evaluator: their clock must be its clock, whatever they decide."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_instances import make_instance, seeded

from prescope.formulation import (
    CostModel,
    Demand,
    Instance,
    Lane,
    Link,
    Plan,
    Tier,
    evaluate,
    makespan_ns,
)
from prescope.formulation.forecast import Forecast
from prescope.formulation.time_curves import LinearTime
from prescope.runtime import compile_plan, run_plan, verify
from prescope.runtime.control import CostTables, OnlineStep, PlannedStep
from prescope.solver.online import gate_policies, make_gate_policy


def truth(instance):
    def forecast(layer, horizon):
        counts = instance.demand.counts[layer + horizon]
        return Forecast(expected_tokens=counts.astype(float), probability=(counts > 0).astype(float))

    return forecast


def noise(instance, seed):
    random = np.random.default_rng(seed)

    def forecast(layer, horizon):
        probability = random.random(instance.experts) * (random.random(instance.experts) < 0.7)
        return Forecast(expected_tokens=probability * random.integers(1, 5), probability=probability)

    return forecast


def run_online(instance, policy, forecast):
    resident = np.zeros(instance.demand.counts.shape, dtype=bool)
    for layer, row in enumerate(instance.residents):
        resident[layer, list(row)] = True
    step = OnlineStep(
        costs=instance.costs,
        tables=CostTables(instance.costs),
        resident=resident,
        slots=instance.slots,
        lookahead=instance.lookahead,
        policy=make_gate_policy(policy),
        forecast=forecast,
        tokens=instance.demand.batch_tokens,
        tier=instance.tier,
        host_computes=instance.host_computes,
        link_ready_ns=instance.link_ready_ns,
        prediction_ns=instance.prediction_ns,
    )
    waves = [step.start()]
    waves += [step.gate(layer, row) for layer, row in enumerate(instance.demand.counts)]
    return step, waves


@pytest.mark.parametrize("policy", gate_policies())
@given(seed=st.integers(0, 10**6), lies=st.booleans())
def test_the_decided_step_costs_what_its_clock_says(policy, seed, lies):
    instance = make_instance(seeded(seed), predictions=True)
    forecast = noise(instance, seed) if lies else truth(instance)
    step, waves = run_online(instance, policy, forecast)
    decided, plan = step.finish()
    assert decided.demand.counts.tolist() == instance.demand.counts.tolist()
    assert plan.info.makespan_ns == makespan_ns(decided, plan)
    assert [copy for wave in waves for copy in wave.copies] == list(plan.transfers)
    assert all(copy.gate == wave.layer for wave in waves for copy in wave.copies)
    # Nobody issues a copy that the next gate could still have called off.
    schedule = evaluate(decided, plan)
    gates = {task.layer: task.end_ns for task in schedule.tasks if task.kind == "dense"}
    for task in schedule.lane(Lane.LINK):
        issued = next(
            copy.gate for copy in plan.transfers if (copy.layer, copy.expert) == (task.layer, task.expert)
        )
        if issued is not None and issued + 1 < instance.layers and task.layer > issued:
            assert task.start_ns < gates[issued + 1]
    last = max((task.end_ns for task in schedule.lane(Lane.LINK)), default=instance.link_ready_ns)
    assert step.link_ready_ns == max(0, last - schedule.makespan_ns)


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6))
def test_a_decided_step_runs_in_the_simulator_in_exactly_its_time(seed):
    instance = make_instance(seeded(seed))
    step, _ = run_online(instance, "dp", noise(instance, seed))
    decided, plan = step.finish()
    verify(compile_plan(decided, plan))
    assert run_plan(decided, plan).makespan_ns == makespan_ns(decided, plan)


def test_rules_without_prefetch_do_what_they_are_named_for():
    for seed in range(60):
        instance = make_instance(seeded(seed), host=True)
        for policy in ("on-demand", "cpu-only", "intra-layer"):
            step, waves = run_online(instance, policy, noise(instance, seed))
            assert all(copy.layer == wave.layer for wave in waves for copy in wave.copies)
            for layer, wave in enumerate(waves[1:]):
                resident = set(instance.residents[layer])
                if policy == "on-demand" and instance.slots:
                    assert not set(wave.plan.cpu) - resident
                if policy == "cpu-only":
                    assert not wave.copies
                    assert not set(wave.plan.gpu) - resident


def test_with_true_forecasts_looking_ahead_pays_on_the_whole():
    totals = dict.fromkeys(gate_policies(), 0)
    for seed in range(150):
        instance = replace(make_instance(seeded(seed), host=True), lookahead=4)
        for policy in totals:
            step, _ = run_online(instance, policy, truth(instance))
            totals[policy] += makespan_ns(*step.finish())
    assert totals["dp"] < totals["presched"] < totals["intra-layer"]
    assert totals["intra-layer"] <= min(totals["on-demand"], totals["cpu-only"])


def test_where_the_host_computes_nothing_copies_are_brought_ahead_all_the_same():
    totals = dict.fromkeys(("on-demand", "presched", "dp"), 0)
    for seed in range(80):
        instance = make_instance(seeded(seed), host=False)
        costs = replace(instance.costs, cpu=(LinearTime(fixed_ns=0),))
        instance = replace(instance, costs=costs, lookahead=4)
        for policy in totals:
            step, _ = run_online(instance, policy, truth(instance))
            totals[policy] += makespan_ns(*step.finish())
    assert totals["dp"] <= totals["presched"] < totals["on-demand"]


def test_a_gate_out_of_order_is_refused():
    instance = make_instance(seeded(3))
    step, _ = run_online(instance, "dp", truth(instance))
    with pytest.raises(ValueError, match=f"expected the gate of layer {instance.layers}, got 0"):
        step.gate(0, instance.demand.counts[0])


@given(seed=st.integers(0, 10**6))
def test_a_followed_plan_keeps_its_times(seed):
    instance = make_instance(seeded(seed))
    step, _ = run_online(instance, "dp", noise(instance, seed))
    decided, realised = step.finish()
    free = Plan(
        layers=realised.layers,
        transfers=tuple(replace(copy, slot=None, gate=None) for copy in realised.transfers),
    )
    planned = PlannedStep(instance=decided, plan=free)
    waves = [planned.start()]
    waves += [planned.gate(layer, row) for layer, row in enumerate(decided.demand.counts)]
    same, followed = planned.finish()
    assert same == decided
    assert [copy for wave in waves for copy in wave.copies] == list(followed.transfers)
    assert evaluate(decided, followed) == evaluate(decided, free)
    verify(compile_plan(decided, followed))


def test_a_followed_plan_notices_another_demand():
    instance = make_instance(seeded(5), max_layers=2)
    step, _ = run_online(instance, "cpu-only", truth(instance))
    planned = PlannedStep(instance=instance, plan=step.finish()[1])
    with pytest.raises(ValueError, match="expected the planned demand in layer 0"):
        planned.gate(0, instance.demand.counts[0] + 1)


@given(seed=st.integers(0, 10**6))
def test_expected_costs_of_certain_forecasts_are_the_true_ones(seed):
    instance = make_instance(seeded(seed))
    tables = CostTables(instance.costs)
    for layer, counts in enumerate(instance.demand.counts):
        gpu_ns, cpu_ns = tables.expected_ns(
            layer, truth(instance)(layer, 0), batch_tokens=instance.demand.batch_tokens
        )
        assert gpu_ns == pytest.approx(tables.gpu_ns(layer, counts))
        assert cpu_ns == pytest.approx(tables.cpu_ns(layer, counts))
        assert tables.cpu_ns(layer, counts).tolist() == [
            instance.costs.cpu_ns(layer, int(count)) for count in counts
        ]


def test_expected_costs_read_the_curves_between_integers_and_never_beyond_the_batch():
    costs = make_instance(seeded(8)).costs
    tables = CostTables(costs)
    # 1.5 tokens if needed; and a forecast that contradicts itself: a billion tokens, if needed at all.
    forecast = Forecast(expected_tokens=np.array([0.75, 1.0, 0.0]), probability=np.array([0.5, 1e-9, 0.0]))
    for expected, curve in zip(
        tables.expected_ns(0, forecast, batch_tokens=4), (costs.gpu_ns, costs.cpu_ns), strict=True
    ):
        assert expected[0] == pytest.approx(0.5 * (curve(0, 1) + curve(0, 2)) / 2)
        assert expected[1] == pytest.approx(1e-9 * curve(0, 4))
        assert expected[2] == 0


def test_a_copy_ahead_is_worth_it_also_where_computing_takes_longer_than_copying():
    # One expert per layer, on a device that needs ten copies' time for it and a host that cannot help.
    costs = CostModel(
        expert_bytes=(100, 100),
        link=Link(bytes_per_s=10**9),
        gpu=(LinearTime(fixed_ns=1000),),
        cpu=(LinearTime(fixed_ns=0),),
        dense=(LinearTime(fixed_ns=150),),
        source="a test",
    )
    instance = Instance(
        name="slow device",
        costs=costs,
        demand=Demand(counts=np.array([[1, 0], [0, 1]]), batch_tokens=1),
        residents=((), ()),
        slots=3,
        lookahead=1,
        tier=Tier.DISK,
        host_computes=False,
    )
    for policy in ("presched", "dp"):
        step, _ = run_online(instance, policy, truth(instance))
        # Both copies are hidden behind dense work and the first expert.
        assert makespan_ns(*step.finish()) == 150 + 1000 + 150 + 1000
