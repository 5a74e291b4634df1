"""How a fixed plan's makespan answers to a change of the instance or of the plan."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tiny_instances import instances_with_plans

from prescope.formulation import (
    CostModel,
    Demand,
    InfeasiblePlanError,
    InfeasibleReason,
    Instance,
    Lane,
    LayerPlan,
    LinearTime,
    Link,
    Plan,
    TableTime,
    Transfer,
    evaluate,
    makespan_ns,
)

MANY = settings(max_examples=200)


def evaluated(instance: Instance, plan: Plan):
    """The schedule; a plan that cannot be carried out is no example."""
    try:
        return evaluate(instance, plan)
    except InfeasiblePlanError:
        assume(False)


def explicit(instance: Instance) -> Instance:
    """The same durations as tables and at one byte per nanosecond, so that each can be changed alone."""
    old, tokens = instance.costs, range(1, max(1, instance.demand.batch_tokens) + 1)

    def table(time, layer):
        return TableTime(tokens=tuple(tokens), times_ns=tuple(time(layer, n) for n in tokens))

    layers = range(instance.layers)
    costs = CostModel(
        expert_bytes=tuple(old.copy_ns(layer) for layer in layers),
        link=Link(bytes_per_s=10**9),
        gpu=tuple(table(old.gpu_ns, layer) for layer in layers),
        cpu=tuple(table(old.cpu_ns, layer) for layer in layers),
        dense=tuple(table(old.dense_ns, layer) for layer in layers),
    )
    return replace(instance, costs=costs)


def changed(instance: Instance, change) -> Instance:
    """An instance with explicit durations after `change` has been applied to each of them."""
    costs = instance.costs

    def curves(old):
        return tuple(
            TableTime(tokens=c.tokens, times_ns=tuple(change(time) for time in c.times_ns)) for c in old
        )

    costs = replace(
        costs,
        expert_bytes=tuple(max(1, change(size)) for size in costs.expert_bytes),
        gpu=curves(costs.gpu),
        cpu=curves(costs.cpu),
        dense=curves(costs.dense),
    )
    return replace(instance, costs=costs, link_ready_ns=change(instance.link_ready_ns))


@given(instances_with_plans(), st.integers(2, 1000))
@MANY
def test_scaling_all_times_scales_the_schedule(case, factor):
    instance, plan = explicit(case[0]), case[1]
    schedule = evaluated(instance, plan)
    scaled = evaluate(changed(instance, lambda time: time * factor), plan)
    times = [(t.start_ns * factor, t.end_ns * factor, t.slot) for t in schedule.lane(Lane.LINK)]
    assert [(t.start_ns, t.end_ns, t.slot) for t in scaled.lane(Lane.LINK)] == times
    assert scaled.layer_end_ns == tuple(end * factor for end in schedule.layer_end_ns)


def drawn_shorter(data, instance: Instance) -> Instance:
    return changed(instance, lambda time: time - data.draw(st.integers(0, 2)) if time >= 2 else time)


@pytest.mark.parametrize("slots", ["free", "named"])
@given(data=st.data())
@MANY
def test_shorter_work_never_delays_a_plan_of_one_slot_rule(slots, data):
    instance, plan = data.draw(instances_with_plans(slots=slots))
    instance = explicit(instance)
    before = evaluated(instance, plan)
    after = evaluate(drawn_shorter(data, instance), plan)
    assert all(new <= old for new, old in zip(after.layer_end_ns, before.layer_end_ns, strict=True))


@given(instances_with_plans(slots="free"))
@MANY
def test_another_slot_never_hurts_a_plan_without_named_slots(case):
    instance, plan = case
    before = evaluated(instance, plan).makespan_ns
    assert makespan_ns(replace(instance, slots=instance.slots + 1), plan) <= before


@given(instances_with_plans(slots="free"))
@MANY
def test_more_lookahead_never_hurts_a_plan_without_named_slots(case):
    instance, plan = case
    before = evaluated(instance, plan).makespan_ns
    assert makespan_ns(replace(instance, lookahead=instance.lookahead + 1), plan) <= before


@given(instances_with_plans())
@MANY
def test_a_named_slot_never_beats_the_first_free_one(case):
    instance, plan = case
    before = evaluated(instance, plan).makespan_ns
    free = replace(plan, transfers=tuple(replace(copy, slot=None) for copy in plan.transfers))
    assert makespan_ns(instance, free) <= before


@given(instances_with_plans(slots="free"))
@MANY
def test_leaving_out_a_dropped_copy_never_hurts(case):
    instance, plan = case
    before = evaluated(instance, plan).makespan_ns
    used = tuple(copy for copy in plan.transfers if copy.expert in plan.layers[copy.layer].gpu)
    assert makespan_ns(instance, replace(plan, transfers=used)) <= before


def mixed_slots(first_gpu_ns: int) -> tuple[Instance, tuple[Transfer, ...]]:
    """Two slots, three layers; the copy of layer 0's idle expert 1 is dropped.

    The first two copies take slots 0 and 1 and land at 2 and 4. Slot 1 is free at 4, slot 0 when layer 0's
    expert 0 is computed: at 2 + `first_gpu_ns`.
    """
    costs = CostModel(
        expert_bytes=(2, 1, 9),
        link=Link(bytes_per_s=10**9),
        gpu=(LinearTime(fixed_ns=first_gpu_ns), LinearTime(fixed_ns=10), LinearTime(fixed_ns=10)),
        cpu=(LinearTime(fixed_ns=100),),
        dense=(LinearTime(fixed_ns=1),),
    )
    instance = Instance(
        name="mixed",
        costs=costs,
        demand=Demand(counts=np.array([[1, 0], [1, 0], [1, 0]]), batch_tokens=1),
        residents=((), (), ()),
        slots=2,
        lookahead=3,
    )
    return instance, (Transfer(layer=0, expert=0), Transfer(layer=0, expert=1))


def on_device(*transfers: Transfer) -> Plan:
    return Plan(layers=(LayerPlan(gpu=(0,)),) * 3, transfers=transfers)


def test_anomaly_shorter_work_delays_a_plan_that_mixes_slot_rules():
    """A quicker expert frees slot 0 first, an unnamed copy takes it, the copy that named it waits."""
    tail = (Transfer(layer=1, expert=0), Transfer(layer=2, expert=0, slot=0))
    slow, begin = mixed_slots(first_gpu_ns=3)
    quick, _ = mixed_slots(first_gpu_ns=1)
    # Layer 0 ends at 5, layer 1 at 5 + 1 + 10 = 16, layer 2 at 16 + 1 + 10 = 27: all copies are in time.
    assert makespan_ns(slow, on_device(*begin, *tail)) == 27
    # The copy of layer 1 lands at 5 in slot 0 and is computed until 15; only then comes the last copy.
    assert makespan_ns(quick, on_device(*begin, *tail)) == 15 + 9 + 10


def test_anomaly_shorter_work_deadlocks_a_plan_that_mixes_slot_rules():
    tail = (Transfer(layer=2, expert=0), Transfer(layer=1, expert=0, slot=0))
    slow, begin = mixed_slots(first_gpu_ns=3)
    quick, _ = mixed_slots(first_gpu_ns=1)
    # Copies land at 13 and 14; layer 1 ends at 24, layer 2 at 24 + 1 + 10.
    assert makespan_ns(slow, on_device(*begin, *tail)) == 35
    with pytest.raises(InfeasiblePlanError) as refused:
        makespan_ns(quick, on_device(*begin, *tail))
    assert refused.value.reason is InfeasibleReason.SLOT_OVERFLOW
