"""Plans and schedules as values: what they refuse, compare, hash and sum."""

import pytest

from prescope.formulation import Lane, LayerPlan, Plan, PlanInfo, Schedule, Task, TaskKind, Transfer


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LayerPlan(gpu=(-1,)), "expected expert in [0, inf], got -1"),
        (lambda: LayerPlan(cpu=(1.0,)), "expected expert to be an integer in [0, inf], got 1.0"),
        (lambda: Transfer(layer=-1, expert=0), "expected layer in [0, inf], got -1"),
        (lambda: Transfer(layer=0, expert=-1), "expected expert in [0, inf], got -1"),
        (lambda: Transfer(layer=0, expert=0, slot=-1), "expected slot in [0, inf], got -1"),
        (
            lambda: Transfer(layer=0, expert=0, slot=True),
            "expected slot to be an integer in [0, inf], got True",
        ),
        (lambda: Transfer(layer=2, expert=0, gate=-2), "expected gate in [-1, 2], got -2"),
        (lambda: Transfer(layer=2, expert=0, gate=3), "expected gate in [-1, 2], got 3"),
    ],
)
def test_refused(make, message):
    with pytest.raises(ValueError) as refused:
        make()
    assert str(refused.value) == message


def test_plans_are_values_even_from_lists():
    plan = Plan(layers=(LayerPlan(gpu=(0,), cpu=(1,)),), transfers=(Transfer(layer=0, expert=0),))
    same = Plan(layers=[LayerPlan(gpu=[0], cpu=[1])], transfers=[Transfer(layer=0, expert=0)])
    assert plan == same and hash(plan) == hash(same)
    assert plan != Plan(layers=plan.layers, transfers=plan.transfers, info=PlanInfo(method="x"))
    assert Plan(layers=plan.layers).transfers == ()
    with pytest.raises(AttributeError):
        plan.layers = ()


def test_unknown_information_is_none():
    info = PlanInfo()
    assert (info.seed, info.makespan_ns, info.lower_bound_ns, info.time_ns) == (None,) * 4


def task(lane: Lane, start: int, end: int) -> Task:
    return Task(kind=TaskKind.COMPUTE, lane=lane, layer=0, expert=0, slot=None, start_ns=start, end_ns=end)


def test_a_schedule_by_lane():
    tasks = (task(Lane.GPU, 0, 3), task(Lane.CPU, 1, 5), task(Lane.GPU, 4, 6))
    schedule = Schedule(tasks=tasks, layer_end_ns=(6,), makespan_ns=6)
    assert schedule.lane(Lane.GPU) == (tasks[0], tasks[2])
    assert [schedule.busy_ns(lane) for lane in (Lane.GPU, Lane.CPU, Lane.LINK)] == [5, 4, 0]
    assert tasks[1].duration_ns == 4
