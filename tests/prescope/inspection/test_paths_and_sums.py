"""The critical path is tight, and every sum is exact."""

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from small_schedule import SMALL, task
from tiny_instances import Picker, instances, make_plan

from prescope.formulation import (
    InfeasiblePlanError,
    Instance,
    Lane,
    Plan,
    Schedule,
    TaskKind,
    evaluate,
    makespan_ns,
)
from prescope.inspection import (
    Because,
    StepView,
    add_waterfalls,
    counters,
    critical_path,
    layer_rows,
    spent,
    utilisation,
    waterfall,
)
from prescope.inspection.experts import expert_rows
from prescope.report import Origin

FEW = settings(max_examples=40)


@st.composite
def evaluated(draw: st.DrawFn) -> tuple[Instance, Plan, Schedule]:
    """An instance, with predictions now and then, with a plan that fits it."""
    pick = Picker(lambda low, high: draw(st.integers(low, high)))
    instance = draw(instances(predictions=pick.chance(50)))
    plan = make_plan(pick, instance)
    try:
        return instance, plan, evaluate(instance, plan)
    except InfeasiblePlanError:
        assume(False)
        raise


def test_the_path_of_a_known_schedule() -> None:
    found = [(link.task.layer, link.task.kind.value, link.because.value) for link in critical_path(SMALL)]
    assert found == [
        (0, "dense", "start"),
        (0, "compute", "gate"),
        (1, "dense", "layer"),
        (1, "copy", "gate"),
        (1, "compute", "copy"),
    ]


@FEW
@given(evaluated())
def test_every_link_of_a_planned_path_is_tight(drawn: tuple[Instance, Plan, Schedule]) -> None:
    instance, _, schedule = drawn
    path = critical_path(schedule, link_ready_ns=instance.link_ready_ns)
    assert path[-1].task.end_ns == schedule.makespan_ns
    first = path[0].task
    assert first.start_ns == 0 or (first.kind is TaskKind.COPY and first.start_ns == instance.link_ready_ns)
    assert {link.slack_ns for link in path} == {0}
    for before, after in zip(path, path[1:], strict=False):
        assert before.task.end_ns == after.task.start_ns
    assert path[0].because is Because.START
    length_ns = sum(link.task.duration_ns for link in path)
    assert length_ns == schedule.makespan_ns - first.start_ns


def test_waiting_shows_as_slack_where_nothing_was_tight() -> None:
    late = Schedule(
        tasks=(
            task("dense", "gpu", 0, None, None, 5, 20),
            task("copy", "link", 0, 1, 0, 22, 30),
            task("compute", "gpu", 0, 1, 0, 33, 40),
        ),
        layer_end_ns=(40,),
        makespan_ns=41,
    )
    assert [(link.because, link.slack_ns) for link in critical_path(late)] == [
        (Because.START, 0),
        (Because.GATE, 2),
        (Because.COPY, 3),
    ]
    parts = {part.name: part.ns for part in spent(late)}
    assert parts == {
        "dense": 15,
        "fetched experts": 7,
        "waiting for copies on demand": 13,
        "other waiting": 5 + 1,
    }


def test_a_host_that_begins_late_is_waited_for_from_then_on() -> None:
    late = Schedule(
        tasks=(
            task("dense", "gpu", 0, None, None, 0, 10),
            task("compute", "cpu", 0, 1, None, 15, 25),
            task("predict", "cpu", 0, None, None, 26, 28),
        ),
        layer_end_ns=(28,),
        makespan_ns=30,
    )
    assert {part.name: part.ns for part in spent(late)} == {
        "dense": 10,
        "waiting for the cpu": 10,
        "waiting for predictions": 2,
        "other waiting": 5 + 1 + 2,
    }


@FEW
@given(evaluated(), st.lists(st.integers(0, 6), min_size=1, max_size=40))
def test_nothing_real_upsets_the_sums(drawn: tuple[Instance, Plan, Schedule], noise: list[int]) -> None:
    """Real tasks start late, take long, overlap and end after their step: paths and sums hold."""
    instance, plan, schedule = drawn
    tasks = []
    for number, one in enumerate(schedule.tasks):
        late, longer = noise[number % len(noise)], noise[(3 * number + 1) % len(noise)]
        tasks.append(replace(one, start_ns=one.start_ns + late, end_ns=one.end_ns + late + longer))
    tasks.sort(key=lambda one: (one.start_ns, one.end_ns, one.lane, one.layer))
    real = replace(schedule, tasks=tuple(tasks), makespan_ns=schedule.makespan_ns + noise[0])
    assert sum(part.ns for part in spent(real)) == real.makespan_ns
    path = critical_path(real, link_ready_ns=instance.link_ready_ns)
    assert all(link.slack_ns >= 0 for link in path)
    length_ns = sum(link.slack_ns + link.task.duration_ns for link in path)
    assert length_ns == path[-1].task.end_ns - path[0].task.start_ns
    step = StepView(name="real", schedules={"measured": real}, instance=instance, plan=plan)
    assert sum(row.end_ns - row.start_ns for row in layer_rows(step)) == real.layer_end_ns[-1]
    found = waterfall(step)
    assert found is not None and sum(part.ns for part in found.parts) == real.makespan_ns


def test_a_schedule_without_tasks_has_no_path() -> None:
    assert critical_path(Schedule(tasks=(), layer_end_ns=(0,), makespan_ns=0)) == ()


@FEW
@given(evaluated())
def test_the_time_spent_adds_up(drawn: tuple[Instance, Plan, Schedule]) -> None:
    instance, plan, schedule = drawn
    parts = spent(schedule)
    assert sum(part.ns for part in parts) == schedule.makespan_ns
    assert all(part.ns > 0 for part in parts)
    found = {part.name: part.ns for part in parts}
    dense = sum(one.duration_ns for one in schedule.tasks if one.kind is TaskKind.DENSE)
    assert found.get("dense", 0) == dense
    # A planned device waits for nothing that has no name.
    assert "other waiting" not in found
    if not any(row.cpu for row in plan.layers) and not instance.prediction_ns:
        assert "waiting for the cpu" not in found and "waiting for predictions" not in found


def test_the_layers_of_a_known_schedule() -> None:
    first, second = layer_rows(StepView(name="small", schedules={"executed": SMALL}))
    assert (first.start_ns, first.gate_ns, first.end_ns, second.end_ns) == (0, 20, 60, 120)
    assert first.counts == {Origin.PREFETCHED: 1, Origin.RESIDENT: 1, Origin.HOST: 1}
    assert second.counts == {Origin.PREFETCHED: 1, Origin.ON_DEMAND: 1, Origin.UNUSED: 1}
    assert (first.wait_host_ns, second.wait_copy_ns) == (20, 10)
    assert first.copied_bytes is None and first.tokens == {}


def test_the_experts_of_a_known_layer() -> None:
    rows = expert_rows(StepView(name="small", schedules={"executed": SMALL}), 1)
    assert [(row.expert, row.origin, row.landed_ns, row.critical) for row in rows] == [
        (7, Origin.PREFETCHED, 30, False),
        (8, Origin.ON_DEMAND, -20, True),
        (9, Origin.UNUSED, 10, False),
    ]
    assert [(row.copy is not None, row.compute is not None) for row in rows] == [
        (True, True),
        (True, True),
        (True, False),
    ]


@FEW
@given(evaluated())
def test_the_rows_of_the_layers_add_up(drawn: tuple[Instance, Plan, Schedule]) -> None:
    instance, plan, schedule = drawn
    step = StepView(name="step", schedules={"planned": schedule}, instance=instance, plan=plan)
    rows = layer_rows(step)
    assert [row.start_ns for row in rows[1:]] == [row.end_ns for row in rows[:-1]]
    for row in rows:
        busy = row.dense_ns + row.gpu_ns + row.wait_copy_ns + row.wait_host_ns
        assert busy == row.end_ns - row.start_ns
        assert row.gate_ns == row.start_ns + row.dense_ns
        counted = sum(count for origin, count in row.counts.items() if origin is not Origin.UNUSED)
        assert counted == int((instance.demand.counts[row.layer] > 0).sum())
        assert sum(row.tokens.values()) == int(instance.demand.counts[row.layer].sum())
    copied = sum(row.copied_bytes or 0 for row in rows)
    assert copied == sum(instance.costs.expert_bytes[copy.layer] for copy in plan.transfers)


@FEW
@given(evaluated(), st.integers(-5, 5))
def test_the_waterfall_adds_up(drawn: tuple[Instance, Plan, Schedule], shift_ns: int) -> None:
    instance, plan, schedule = drawn
    shift_ns = max(shift_ns, -schedule.makespan_ns)
    happened = replace(schedule, makespan_ns=schedule.makespan_ns + shift_ns)
    step = StepView(
        name="step", schedules={"planned": schedule, "executed": happened}, instance=instance, plan=plan
    )
    found = waterfall(step)
    assert found is not None
    assert sum(part.ns for part in found.parts) == found.makespan_ns == happened.makespan_ns
    assert found.parts[-1].name == "executed minus planned" and found.parts[-1].ns == shift_ns
    assert all(part.ns >= 0 for part in found.parts[:-1])
    assert found.parts[0].ns == found.lower_bound_ns <= schedule.makespan_ns
    parts = {part.name: part.ns for part in found.parts}
    if not instance.prediction_ns:
        assert parts["predictions"] == 0
    used = {(layer, expert) for layer, row in enumerate(plan.layers) for expert in row.gpu}
    if all((copy.layer, copy.expert) in used for copy in plan.transfers):
        assert parts["unused copies"] == 0
    if all(copy.gate is None for copy in plan.transfers):
        assert parts["late decisions"] == 0
    total = add_waterfalls([found, found])
    assert total is not None and total.makespan_ns == 2 * found.makespan_ns
    assert sum(part.ns for part in total.parts) == total.makespan_ns


def test_the_waterfall_names_what_was_lost(waste: tuple[Instance, Plan, Plan]) -> None:
    instance, clean, wasteful = waste
    step = StepView(
        name="step",
        schedules={"planned": evaluate(instance, wasteful)},
        instance=instance,
        plan=wasteful,
    )
    found = waterfall(step)
    assert found is not None
    parts = {part.name: part.ns for part in found.parts}
    assert parts["unused copies"] == makespan_ns(instance, wasteful) - makespan_ns(instance, clean) > 0


def test_a_planner_that_does_worse_takes_nothing_away(waste: tuple[Instance, Plan, Plan]) -> None:
    instance, clean, _ = waste
    schedule = evaluate(instance, clean)
    step = StepView(name="step", schedules={"planned": schedule}, instance=instance, plan=clean)
    found = waterfall(step, method="cpu-only")
    assert found is not None
    parts = {part.name: part.ns for part in found.parts}
    assert parts["choices"] == 0 <= parts["unproved"] == schedule.makespan_ns - found.lower_bound_ns


def test_no_waterfall_without_a_plan() -> None:
    assert waterfall(StepView(name="step", schedules={"planned": SMALL})) is None
    assert add_waterfalls([]) is None


@FEW
@given(evaluated())
def test_counters_count(drawn: tuple[Instance, Plan, Schedule]) -> None:
    instance, plan, schedule = drawn
    step = StepView(name="step", schedules={"planned": schedule}, instance=instance, plan=plan)
    slots, flight = counters(step)
    assert slots.unit == "slots" and flight.unit == "bytes"
    for counter in (slots, flight):
        assert list(counter.times_ns) == sorted(set(counter.times_ns))
        assert min(counter.values, default=0) >= 0 and (not counter.values or counter.values[-1] == 0)
        assert all(a != b for a, b in zip(counter.values, counter.values[1:], strict=False))
    assert max(slots.values, default=0) <= instance.slots
    largest = max(instance.costs.expert_bytes)
    assert max(flight.values, default=0) <= largest * max(len(plan.transfers), 1)
    area = sum(
        value * (after - at)
        for value, at, after in zip(flight.values, flight.times_ns, flight.times_ns[1:], strict=False)
    )
    carried = sum(
        one.duration_ns * instance.costs.expert_bytes[one.layer] for one in schedule.lane(Lane.LINK)
    )
    assert area >= carried


@FEW
@given(evaluated(), st.integers(1, 9))
def test_utilisation_is_the_share_of_time_busy(drawn: tuple[Instance, Plan, Schedule], buckets: int) -> None:
    schedule = drawn[2]
    for lane, busy in utilisation(schedule, buckets).items():
        assert busy.shape == (buckets,) and busy.min() >= 0 and busy.max() <= 1
        end_ns = schedule.makespan_ns
        spans = [(max(one.start_ns, 0), min(one.end_ns, end_ns)) for one in schedule.lane(lane)]
        within = sum(max(end - start, 0) for start, end in spans)
        assert busy.mean() * end_ns == pytest.approx(within, abs=1e-6 * end_ns)


def test_workers_that_overlap_are_busy_once() -> None:
    tasks = (task("compute", "cpu", 0, 1, None, 0, 10), task("compute", "cpu", 0, 2, None, 5, 15))
    schedule = Schedule(tasks=tasks, layer_end_ns=(20,), makespan_ns=20)
    assert utilisation(schedule, 4)[Lane.CPU].tolist() == [1.0, 1.0, 1.0, 0.0]
    assert utilisation(schedule, 1)[Lane.CPU].tolist() == [0.75]


def test_buckets_are_needed() -> None:
    with pytest.raises(ValueError, match="buckets >= 1"):
        utilisation(SMALL, 0)
