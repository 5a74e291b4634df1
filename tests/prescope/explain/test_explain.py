"""Counterfactuals against evaluations by hand and against proofs; words against numbers."""

import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_instances import instances_with_plans, make_instance, seeded

from prescope.explain import (
    ExplainSettings,
    Limit,
    Place,
    expert_sentences,
    explain_expert,
    explain_layer,
    explain_plan,
    layer_experts,
    layer_facts,
    layer_sentences,
)
from prescope.explain.alternatives import residency
from prescope.explain.break_even import (
    BreakEven,
    Lever,
    _scaled,
    _whole,
    device_wins,
    with_host,
    with_link,
    with_tokens,
)
from prescope.explain.edits import on_device, on_host
from prescope.explain.prices import lead_at, link_prices, prices
from prescope.explain.words import _break_even
from prescope.formulation import (
    InfeasiblePlanError,
    Instance,
    Lane,
    LayerPlan,
    Plan,
    TaskKind,
    Transfer,
    evaluate,
    format_ns,
    makespan_ns,
)
from prescope.instances import synthetic_instance
from prescope.solver import solve
from prescope.solver.forced import replan

QUICK = ExplainSettings(effort=3_000, break_evens=False)


def feasible(instance: Instance, plan: Plan) -> bool:
    try:
        evaluate(instance, plan)
    except InfeasiblePlanError:
        return False
    return True


@given(instances_with_plans())
@settings(max_examples=40, deadline=None)
def test_facts_are_those_of_the_schedule(given_: Any) -> None:
    instance, plan = given_
    if not feasible(instance, plan):
        return
    schedule = evaluate(instance, plan)
    computed = {(t.layer, t.expert): t for t in schedule.tasks if t.kind is TaskKind.COMPUTE}
    copied = {(t.layer, t.expert): t for t in schedule.tasks if t.kind is TaskKind.COPY}
    seen = 0
    for layer in range(instance.layers):
        device_idle = 0
        for one in layer_experts(instance, plan, schedule, layer):
            task = computed[layer, one.expert]
            seen += 1
            assert (one.start_ns, one.end_ns) == (task.start_ns, task.end_ns)
            assert (one.place is Place.CPU) == (one.expert in plan.layers[layer].cpu)
            assert one.layer_end_ns - one.lane_slack_ns >= one.end_ns and one.lane_slack_ns >= 0
            copy = copied.get((layer, one.expert))
            assert (one.copy_start_ns, one.copy_end_ns) == (
                (None, None) if copy is None else (copy.start_ns, copy.end_ns)
            )
            if copy is not None and one.place is not Place.CPU:
                # One that starts at the very gate is on demand.
                assert (one.place is Place.PREFETCHED) == (copy.start_ns < one.gate_ns)
            assert one.waited_ns >= 0 and (one.early_ns is None or one.early_ns >= 0)
            if one.waited_ns:
                assert one.early_ns == 0
            device_idle += one.waited_ns
        facts = layer_facts(instance, plan, schedule, layer)
        assert facts.waited_ns == device_idle
        ends = [(t.lane, t.end_ns - facts.gate_ns) for t in computed.values() if t.layer == layer]
        lanes = {
            lane: max((end_ns for where, end_ns in ends if where is lane), default=0)
            for lane in (Lane.GPU, Lane.CPU)
        }
        assert (facts.device_ns, facts.host_ns) == tuple(lanes.values())
        if not any(lanes.values()):
            assert facts.limit is Limit.NOTHING
        elif lanes[Lane.CPU] > lanes[Lane.GPU]:
            assert facts.limit is Limit.HOST
        else:
            assert facts.limit is (Limit.COPIES if device_idle else Limit.DEVICE)
    assert seen == len(computed)


@given(instances_with_plans(slots="free", gates=False))
@settings(max_examples=40, deadline=None)
def test_the_best_place_is_the_best_of_all_places_tried_by_hand(given_: Any) -> None:
    instance, plan = given_
    if not feasible(instance, plan):
        return
    for layer, entry in enumerate(plan.layers):
        for expert in (*entry.gpu, *entry.cpu)[:2]:
            others = tuple(one for one in entry.gpu if one != expert)
            host = tuple(one for one in entry.cpu if one != expert)
            kept = [one for one in plan.transfers if (one.layer, one.expert) != (layer, expert)]

            def changed(gpu: Any, cpu: Any, transfers: Any, layer: int = layer) -> Plan:
                layers = (*plan.layers[:layer], LayerPlan(gpu=gpu, cpu=cpu), *plan.layers[layer + 1 :])
                return replace(plan, layers=layers, transfers=tuple(transfers))

            away = on_host(instance, plan, layer, expert)
            assert (away is not None) == instance.host_computes
            if away is not None:
                assert away[1] == makespan_ns(instance, changed(others, (*host, expert), kept))
            if expert in instance.residents[layer] or instance.slots == 0:
                continue
            tried = [
                changed((*others[:spot], expert, *others[spot:]), host, [*kept[:at], copy, *kept[at:]])
                for copy in [Transfer(layer=layer, expert=expert)]
                for at in range(len(kept) + 1)
                for spot in range(len(others) + 1)
            ]
            times = [makespan_ns(instance, one) for one in tried if feasible(instance, one)]
            found = on_device(instance, plan, layer, expert)
            if found is not None:
                assert found[1] == makespan_ns(instance, found[0]) >= min(times)
            late = on_device(instance, plan, layer, expert, gate=layer)
            if late is not None:
                copy = next(t for t in late[0].transfers if (t.layer, t.expert) == (layer, expert))
                assert copy.gate == layer and late[1] == makespan_ns(instance, late[0]) >= min(times)


@pytest.mark.parametrize("seed", range(12))
def test_planned_anew_is_never_better_than_proved_and_one_side_is_as_good(seed: int) -> None:
    instance = make_instance(seeded(seed), max_layers=3, max_experts=4, max_missing=4)
    solved = solve(instance, method="cp-sat")
    plan = solved.plan
    assert plan is not None
    layer = next((at for at, entry in enumerate(plan.layers) if entry.gpu or entry.cpu), None)
    if layer is None or solved.lower_bound_ns != solved.makespan_ns:
        return
    expert = (*plan.layers[layer].cpu, *plan.layers[layer].gpu)[0]
    found = explain_expert(instance, plan, layer, expert, replace(QUICK, prove=True))
    for one in found.alternatives:
        if one.fixed_ns is not None:
            assert one.replanned_ns is not None and one.replanned_ns <= one.fixed_ns
        if one.replanned_ns is not None:
            assert one.plan is not None and makespan_ns(instance, one.plan) == one.replanned_ns
            assert (expert in one.plan.layers[layer].cpu) == (one.place is Place.CPU)
            assert one.bound_ns is not None and solved.makespan_ns <= one.bound_ns <= one.replanned_ns
    assert min(one.replanned_ns for one in found.alternatives if one.replanned_ns) == solved.makespan_ns
    assert found.residency.with_ns <= (found.residency.without_ns or 2**60)


@pytest.mark.parametrize("seed", [3, 5, 8, 13])
def test_break_evens_hold_when_planned_again(seed: int) -> None:
    instance = replace(synthetic_instance("mixtral-8x7b", "a100-pcie4", 8, seed), lookahead=4)
    plan = solve(instance, method="dp-fast").plan
    assert plan is not None
    layer = 15 + seed
    expert = (*plan.layers[layer].cpu, *plan.layers[layer].gpu)[0]
    settings_ = ExplainSettings(effort=20_000)
    found = explain_expert(instance, plan, layer, expert, settings_)
    changed = {
        "tokens": lambda value: with_tokens(instance, layer, expert, round(value)),
        "link bytes/s": lambda value: with_link(instance, value / instance.costs.link.bytes_per_s),
        "host speed": lambda value: with_host(instance, value),
    }
    assert any(one.found for one in found.break_evens)
    for one in found.break_evens:
        if one.device_from is None or one.host_from is None:
            assert one.device_from is one.host_from is None
            continue
        for value, wins in ((one.device_from, True), (one.host_from, False)):
            assert (
                device_wins(changed[one.lever.value](value), layer, expert, plan=plan, effort=20_000) is wins
            )
        assert abs(one.device_from - one.host_from) <= max(1, 0.01 * one.now * 16)


@given(st.integers(1, 60), st.sets(st.integers(1, 60)), st.integers(1, 60))
@settings(max_examples=200, deadline=None)
def test_a_change_of_tokens_is_one_and_the_first_where_there_is_one(
    now: int, wins: set[int], first: int
) -> None:
    found = _whole(now, 60, wins.__contains__)
    if found.device_from is not None and found.host_from is not None:
        assert found.device_from in wins and found.host_from not in wins
        assert abs(found.device_from - found.host_from) == 1
    else:
        # What lies one away is always seen.
        assert all((near in wins) == (now in wins) for near in (now - 1, now + 1) if 1 <= near <= 60)
    only = _whole(now, 60, lambda tokens: tokens >= first)
    change = (None, None) if first == 1 else (first, first - 1)
    assert (only.device_from, only.host_from) == change


def test_the_nearest_change_is_said_where_it_changes_back() -> None:
    found = _whole(3, 60, lambda tokens: 5 <= tokens <= 6 or tokens == 50)
    assert (found.device_from, found.host_from) == (5, 4)
    for wins in (lambda factor: 1.7 < factor < 5, lambda factor: factor > 1.7):
        scaled = _scaled(Lever.LINK, 10.0, wins)
        assert scaled.device_from is not None and scaled.host_from is not None
        assert 17 - 0.2 < scaled.host_from <= 17 < scaled.device_from < 17 + 0.2
        assert (scaled.low, scaled.high) == (10 / 16, 160)
    slower = _scaled(Lever.HOST, 1, lambda factor: factor < 0.1 or factor > 9)
    assert slower.device_from == pytest.approx(9, rel=0.01)
    slower = _scaled(Lever.HOST, 1, lambda factor: factor < 0.1)
    assert slower.device_from == pytest.approx(0.1, rel=0.01) and slower.found
    assert not _scaled(Lever.HOST, 1, lambda factor: factor > 16).found


@pytest.mark.parametrize(
    ("lever", "now", "device_from", "host_from", "says"),
    [
        (Lever.TOKENS, 3, 7, 6, "The CPU begins to lose at 7 tokens (3 tokens now)."),
        (Lever.TOKENS, 7, 7, 6, "The CPU no longer loses at 6 tokens (7 tokens now)."),
        (Lever.TOKENS, 2, 2, 1, "The CPU no longer loses at 1 token (2 tokens now)."),
        (Lever.LINK, 24e9, 14e9, 14.1e9, "A copy begins to pay with a link of 14 GB/s (24 GB/s now)."),
        (Lever.LINK, 24e9, 14.1e9, 14e9, "A copy no longer pays with a link of 14 GB/s (24 GB/s now)."),
        (Lever.HOST, 1, 12.0, 11.9, "The CPU begins to lose with 12 times its speed."),
        (Lever.HOST, 1, 1.9, 2.0, "The CPU no longer loses with 2 times its speed."),
    ],
)
def test_what_would_change_it_in_words(
    lever: Lever, now: float, device_from: float, host_from: float, says: str
) -> None:
    one = BreakEven(
        lever=lever, now=now, device_from=device_from, host_from=host_from, low=now / 16, high=now * 16
    )
    assert _break_even(one) == says


def test_words_match_numbers() -> None:
    for seed in range(12):
        instance = make_instance(seeded(seed), host=True)
        plan = solve(instance, method="presched").plan
        assert plan is not None
        schedule = evaluate(instance, plan)
        for layer in range(instance.layers):
            said = " ".join(layer_sentences(explain_layer(instance, plan, layer, QUICK)))
            assert format_ns(schedule.layer_end_ns[layer]) in said
            for facts in layer_experts(instance, plan, schedule, layer)[:1]:
                found = explain_expert(instance, plan, layer, facts.expert, QUICK)
                text = " ".join(expert_sentences(found))
                for one in found.alternatives:
                    if not one.chosen and one.fixed_ns is not None:
                        change = one.fixed_ns - found.makespan_ns
                        if change:
                            way = "slower" if change > 0 else "faster"
                            assert re.search(rf"as it is {re.escape(format_ns(abs(change)))} .*{way}", text)
                assert f"worth {found.prices.link_time:.2f} ms" in text


def test_where_a_plan_loses_time() -> None:
    instance = make_instance(seeded(4), host=True)
    plan = solve(instance, method="on-demand").plan
    assert plan is not None
    whole = explain_plan(instance, plan, count=instance.layers)
    assert sum(one.duration_ns for one in whole.layers) == whole.makespan_ns == makespan_ns(instance, plan)
    assert sum(one.lost_ns for one in whole.layers) == whole.makespan_ns - whole.ideal_ns


def test_a_copy_at_the_gate_does_not_hold_up_the_link() -> None:
    from prescope.instances import load_library_instance

    instance = load_library_instance("gpt-oss-20b@a100-pcie4-fit-n48-decode-b8-g0-t0").instance
    plan = solve(instance, method="dp-fast").plan
    assert plan is not None
    for layer in (6, 12, 18):
        for expert in plan.layers[layer].cpu[:2]:
            found = on_device(instance, plan, layer, expert, gate=layer)
            assert found is not None
            copies = [one for one in evaluate(instance, found[0]).tasks if one.kind is TaskKind.COPY]
            idle = [late.start_ns - early.end_ns for early, late in pairwise(copies)]
            before = [one for one in evaluate(instance, plan).tasks if one.kind is TaskKind.COPY]
            was_idle = [late.start_ns - early.end_ns for early, late in pairwise(before)]
            assert sum(idle) <= sum(was_idle) + instance.costs.copy_ns(layer)


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


def test_refusals() -> None:
    instance = make_instance(seeded(4), host=True)
    plan = solve(instance, method="dp-fast").plan
    assert plan is not None
    with pytest.raises(ValueError, match="expected a layer in"):
        explain_layer(instance, plan, instance.layers, QUICK)
    with pytest.raises(ValueError, match="expected effort in"):
        ExplainSettings(effort=0)
    with pytest.raises(ValueError, match="expected an expert with tokens in layer 0"):
        explain_expert(instance, plan, 0, 99, QUICK)


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
