"""What must hold of every schedule, and how a fixed plan's makespan answers to a change of the instance."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
from event_simulation import DeadlockError, simulate
from hypothesis import assume, given, settings
from tiny_instances import instances_with_plans, make_instance, make_plan, seeded

from prescope.formulation import (
    InfeasiblePlanError,
    Instance,
    Lane,
    Plan,
    TaskKind,
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


@given(instances_with_plans())
@MANY
def test_one_task_at_a_time_on_every_lane(case):
    schedule = evaluated(*case)
    for lane in Lane:
        for before, after in pairwise(schedule.lane(lane)):
            assert before.end_ns <= after.start_ns


@given(instances_with_plans())
@MANY
def test_tasks_are_in_the_documented_order(case):
    tasks = evaluated(*case).tasks
    keys = [(task.start_ns, task.end_ns, task.lane, task.layer) for task in tasks]
    assert keys == sorted(keys)


@given(instances_with_plans())
@MANY
def test_no_two_occupants_of_a_slot_overlap(case):
    instance, plan = case
    schedule = evaluated(instance, plan)
    gates = {t.layer: t.end_ns for t in schedule.tasks if t.kind is TaskKind.DENSE}
    use_ends = {(t.layer, t.expert): t.end_ns for t in schedule.lane(Lane.GPU) if t.kind is TaskKind.COMPUTE}
    held: dict[int, list[tuple[int, int]]] = {}
    for copy in schedule.lane(Lane.LINK):
        # A dropped copy frees its slot at its gate, or on landing.
        end = use_ends.get((copy.layer, copy.expert), max(copy.end_ns, gates[copy.layer]))
        held.setdefault(copy.slot, []).append((copy.start_ns, end))
    assert all(0 <= slot < instance.slots for slot in held)
    for stays in held.values():
        assert all(before[1] <= after[0] for before, after in pairwise(stays))


@given(instances_with_plans())
@MANY
def test_precedence(case):
    instance, plan = case
    schedule = evaluated(instance, plan)
    gates = {t.layer: t for t in schedule.tasks if t.kind is TaskKind.DENSE}
    landed = {(t.layer, t.expert): t for t in schedule.lane(Lane.LINK)}
    ends = schedule.layer_end_ns
    for layer, dense in gates.items():
        assert dense.start_ns == (ends[layer - 1] if layer else 0)
    for task in schedule.tasks:
        if task.kind is TaskKind.COMPUTE:
            assert gates[task.layer].end_ns <= task.start_ns <= task.end_ns <= ends[task.layer]
        if task.kind is TaskKind.COMPUTE and task.slot is not None:
            copy = landed[task.layer, task.expert]
            assert copy.end_ns <= task.start_ns and copy.slot == task.slot
        if task.kind is TaskKind.COPY:
            assert task.start_ns >= instance.link_ready_ns
            if task.layer >= instance.lookahead:
                assert task.start_ns >= gates[task.layer - instance.lookahead].end_ns
    for transfer, copy in zip(plan.transfers, schedule.lane(Lane.LINK), strict=True):
        assert (transfer.layer, transfer.expert) == (copy.layer, copy.expert)
        assert transfer.slot in (None, copy.slot)
        if transfer.gate not in (None, -1):
            assert copy.start_ns >= gates[transfer.gate].end_ns
    assert schedule.makespan_ns == ends[-1]


@given(instances_with_plans())
@MANY
def test_each_activated_expert_once_where_the_plan_says(case):
    instance, plan = case
    schedule = evaluated(instance, plan)
    computed = [(t.layer, t.expert, t.lane) for t in schedule.tasks if t.kind is TaskKind.COMPUTE]
    planned = [(k, e, Lane.GPU) for k, placed in enumerate(plan.layers) for e in placed.gpu]
    planned += [(k, e, Lane.CPU) for k, placed in enumerate(plan.layers) for e in placed.cpu]
    assert sorted(computed) == sorted(planned)
    active = [tuple(key) for key in np.argwhere(instance.demand.counts > 0).tolist()]
    assert sorted((layer, expert) for layer, expert, _ in computed) == active


@given(instances_with_plans())
@MANY
def test_durations_are_the_costs(case):
    instance, plan = case
    costs, counts = instance.costs, instance.demand.counts
    for task in evaluated(instance, plan).tasks:
        if task.kind is TaskKind.DENSE:
            expected = costs.dense_ns(task.layer, instance.demand.batch_tokens)
        elif task.kind is TaskKind.COPY:
            expected = costs.copy_ns(task.layer)
        else:
            curve = costs.gpu_ns if task.lane is Lane.GPU else costs.cpu_ns
            expected = curve(task.layer, int(counts[task.layer, task.expert]))
        assert task.duration_ns == expected


@given(instances_with_plans())
@MANY
def test_makespan_is_at_least_what_each_lane_must_do(case):
    instance, plan = case
    schedule = evaluated(instance, plan)
    dense = sum(task.duration_ns for task in schedule.tasks if task.kind is TaskKind.DENSE)
    assert schedule.makespan_ns >= schedule.busy_ns(Lane.GPU)
    assert schedule.makespan_ns >= dense + schedule.busy_ns(Lane.CPU)
    assert makespan_ns(instance, plan) == schedule.makespan_ns


@given(instances_with_plans())
@MANY
def test_naming_the_slots_taken_changes_nothing(case):
    instance, plan = case
    schedule = evaluated(instance, plan)
    taken = [task.slot for task in schedule.lane(Lane.LINK)]
    named = tuple(replace(copy, slot=slot) for copy, slot in zip(plan.transfers, taken, strict=True))
    assert evaluate(instance, replace(plan, transfers=named)) == schedule


def test_properties_are_not_vacuous():
    """Plans that can be carried out are common, with drops, full slots and waits for the link."""
    dropped = waited = reused = feasible = 0
    for seed in range(500):
        pick = seeded(seed)
        instance = make_instance(pick)
        plan = make_plan(pick, instance)
        try:
            simulate(instance, plan)
        except DeadlockError:
            continue
        feasible += 1
        schedule = evaluate(instance, plan)
        links = schedule.lane(Lane.LINK)
        ends = {(task.layer, task.expert): task.end_ns for task in links}
        dropped += any(copy.expert not in plan.layers[copy.layer].gpu for copy in plan.transfers)
        reused += len({task.slot for task in links}) < len(links)
        waited += any(
            ends.get((task.layer, task.expert)) == task.start_ns
            for task in schedule.lane(Lane.GPU)
            if task.kind is TaskKind.COMPUTE
        )
    assert feasible >= 300 and dropped >= 50 and reused >= 80 and waited >= 100
