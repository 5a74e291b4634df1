"""Counterfactuals against evaluations by hand and against proofs; words against numbers."""

import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
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
from prescope.explain.edits import on_device, on_host
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
from prescope.solver import solve

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
