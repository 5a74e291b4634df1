"""What link time, slots and residents are worth, against differences of plans."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_instances import make_instance, seeded

from prescope.explain import layer_experts
from prescope.explain.alternatives import residency
from prescope.explain.break_even import with_link
from prescope.explain.prices import lead_at, link_prices, prices
from prescope.formulation import Instance, TaskKind, evaluate
from prescope.instances import synthetic_instance
from prescope.solver import solve
from prescope.solver.forced import replan


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_the_lead_is_link_time_done_less_owed(seed: int) -> None:
    instance = make_instance(seeded(seed))
    plan = solve(instance, method="dp-fast").plan
    assert plan is not None
    schedule = evaluate(instance, plan)
    for layer in range(instance.layers):
        start = schedule.layer_end_ns[layer - 1] if layer else 0
        copies = [one for one in schedule.tasks if one.kind is TaskKind.COPY]
        done = sum(
            1
            for one in copies
            if one.layer >= layer
            for now in range(one.start_ns, one.end_ns)
            if now < start
        )
        owed = sum(max(0, one.end_ns - start) for one in copies if one.layer < layer and one.start_ns < start)
        assert lead_at(schedule, layer) == done - owed


@pytest.mark.parametrize("seed", [1, 4, 9])
def test_prices_are_differences_of_plans(seed: int) -> None:
    instance = make_instance(seeded(seed), host=True)
    plan = solve(instance, method="dp-fast").plan
    assert plan is not None
    for slots in (0, 1, 3):
        some = replace(instance, slots=slots)

        def planned_ns(changed: Instance) -> int:
            found = replan(changed, hint=plan, effort=2_000)
            assert found is not None
            return found[1]

        made, free_ns = replan(some, hint=plan, effort=2_000) or (plan, 0)
        found = prices(some, made, evaluate(some, made), 0, effort=2_000)
        assert found.free_ns == planned_ns(some)
        assert found.faster_link_ns == free_ns - planned_ns(with_link(some, 1.1))
        assert found.slot_ns == free_ns - planned_ns(replace(some, slots=slots + 1))
        if slots == 0:
            assert found.lost_slot_ns is None
        else:
            assert found.lost_slot_ns == planned_ns(replace(some, slots=slots - 1)) - free_ns
    streamed = replace(synthetic_instance("olmoe-1b-7b", "nvme-ram", 1, seed), slots=1)
    only = solve(streamed, method="dp-fast").plan
    assert only is not None
    # Without a slot nothing could be planned there.
    assert prices(streamed, only, evaluate(streamed, only), 0, effort=1).lost_slot_ns is None


@pytest.mark.parametrize("seed", range(6))
def test_a_place_among_the_residents_is_the_difference_of_plans(seed: int) -> None:
    instance = make_instance(seeded(seed), host=True)
    plan = solve(instance, method="dp-fast").plan
    assert plan is not None
    schedule = evaluate(instance, plan)
    for layer in range(instance.layers):
        for facts in layer_experts(instance, plan, schedule, layer):
            found = residency(instance, plan, facts, effort=1_000)
            assert found.resident == facts.resident == (facts.expert in instance.residents[layer])
            for there, time_ns in ((True, found.with_ns), (False, found.without_ns)):
                rows = [set(row) for row in instance.residents]
                rows[layer] = rows[layer] | {facts.expert} if there else rows[layer] - {facts.expert}
                changed = replace(instance, residents=tuple(tuple(sorted(row)) for row in rows))
                assert (replan(changed, hint=plan, effort=1_000) or (None, None))[1] == time_ns


def test_link_time_is_worth_itself_where_everything_waits_for_the_link() -> None:
    instance = synthetic_instance("olmoe-1b-7b", "nvme-ram", 4, 0)
    slow, fast = with_link(instance, 0.25), with_link(instance, 1000.0)
    for changed, worth in ((slow, 1.0), (fast, 0.0)):
        plan = solve(changed, method="dp-fast").plan
        assert plan is not None
        schedule = evaluate(changed, plan)
        layers = (4, 8, 12)
        found = link_prices(changed, schedule, layers)
        assert found == pytest.approx([worth] * 3, abs=0.1), found
        for layer, price in zip(layers, found, strict=True):
            assert price == prices(changed, plan, schedule, layer, effort=1).link_time
