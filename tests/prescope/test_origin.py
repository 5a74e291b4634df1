"""Where the weights of every task come from."""

from hypothesis import assume, given
from small_schedule import SMALL
from tiny_instances import instances_with_plans

from prescope.formulation import InfeasiblePlanError, Instance, Lane, Plan, Schedule, TaskKind, evaluate
from prescope.report import Origin, mark, shares


def test_every_task_of_a_known_schedule() -> None:
    found = [entry.origin.value for entry in mark(SMALL)]
    assert found == [
        "prefetched",
        "dense",
        "prefetched",
        "prefetched",
        "cpu",
        "resident",
        "unused copy",
        "dense",
        "prefetched",
        "on demand",
        "on demand",
    ]


def test_a_copy_of_the_step_before_is_prefetched() -> None:
    tasks = tuple(task for task in SMALL.tasks if task.start_ns >= 0)
    later = Schedule(tasks=tasks, layer_end_ns=SMALL.layer_end_ns, makespan_ns=SMALL.makespan_ns)
    computed = next(entry for entry in mark(later) if entry.task.expert == 5)
    assert computed.origin is Origin.PREFETCHED


def test_busy_shares_count_only_the_stretch() -> None:
    assert shares(SMALL, 0, 120) == {Lane.LINK: 90 / 120, Lane.GPU: 90 / 120, Lane.CPU: 40 / 120}
    assert shares(SMALL, 60, 80) == {Lane.LINK: 0.5, Lane.GPU: 1.0, Lane.CPU: 0.0}


@given(instances_with_plans())
def test_origins_agree_with_the_plan(drawn: tuple[Instance, Plan]) -> None:
    instance, plan = drawn
    try:
        schedule = evaluate(instance, plan)
    except InfeasiblePlanError:
        assume(False)
    used = {(layer, expert) for layer, row in enumerate(plan.layers) for expert in row.gpu}
    for entry in mark(schedule):
        task, key = entry.task, (entry.task.layer, entry.task.expert)
        if task.kind is TaskKind.COPY:
            # A plan copies each expert once, so what its layer does not run on the device is unused.
            assert (entry.origin is Origin.UNUSED) == (key not in used)
        elif task.kind is TaskKind.COMPUTE and task.lane is Lane.GPU:
            assert (entry.origin is Origin.RESIDENT) == (task.expert in instance.residents[task.layer])
