"""Horizons: what the evaluator adds up, and what it refuses."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from prescope.formulation import (
    CostModel,
    Demand,
    LayerPlan,
    LinearTime,
    Link,
    Plan,
    PredictedDemand,
    Transfer,
    evaluate,
)
from prescope.formulation.horizon import Horizon, HorizonPlan
from prescope.formulation.horizon_evaluator import (
    InfeasibleHorizonError,
    evaluate_horizon,
    horizon_schedules,
    link_left_ns,
)
from prescope.formulation.horizon_swaps import FOR_EVER_NS, swap_times, swaps_fit
from prescope.formulation.schedule import Lane, TaskKind

COSTS = CostModel(
    expert_bytes=(10, 10),
    link=Link(bytes_per_s=10**9, latency_ns=0),
    gpu=(LinearTime(fixed_ns=2),),
    cpu=(LinearTime(fixed_ns=20),),
    dense=(LinearTime(fixed_ns=5),),
)


def horizon(counts=(((1, 0, 1), (0, 1, 0)), ((1, 1, 0), (0, 1, 1))), **changes):
    demands = tuple(Demand(counts=np.array(step), batch_tokens=1) for step in counts)
    given = {"name": "h", "costs": COSTS, "demands": demands, "residents": ((0,), (0,))}
    return Horizon(**{**given, "slots": 1, "lookahead": 2, **changes})


FIRST = Plan(
    layers=(LayerPlan(gpu=(0,), cpu=(2,)), LayerPlan(gpu=(1,))), transfers=(Transfer(layer=1, expert=1),)
)
SECOND = Plan(layers=(LayerPlan(gpu=(0,), cpu=(1,)), LayerPlan(gpu=(1,), cpu=(2,))))


def test_steps_add_up_and_a_brought_expert_may_stay():
    case = horizon()
    plan = HorizonPlan(plans=(FIRST, SECOND), residents=(((0,), (0,)), ((0,), (1,))))
    schedule = evaluate_horizon(case, plan)
    alone = [evaluate(case.instance(step, plan.residents[step]), plan.plans[step]) for step in range(2)]
    assert schedule.step_ns == tuple(each.makespan_ns for each in alone)
    assert schedule.total_ns == sum(schedule.step_ns)
    assert schedule.copied_bytes == 10
    assert (schedule.hits, schedule.uses) == (1 + 2, 3 + 4)


def test_a_copy_that_is_under_way_at_the_end_delays_the_next_step_and_brings_nobody():
    late = Plan(
        layers=(LayerPlan(gpu=(0,), cpu=(2,)), LayerPlan(cpu=(1,))),
        transfers=tuple(Transfer(layer=1, expert=expert) for expert in (1, 2)),
    )
    slow = replace(COSTS, link=Link(bytes_per_s=10**9, latency_ns=30))
    case = horizon(costs=slow)
    schedule = evaluate(case.instance(0, case.residents), late)
    assert swap_times(schedule, 3).landed == {(1, 1)}
    assert link_left_ns(schedule) == 80 - schedule.makespan_ns > 0
    plan = HorizonPlan(
        plans=(late, replace(FIRST, layers=(LayerPlan(gpu=(0,), cpu=(1,)), LayerPlan(gpu=(1,), cpu=(2,))))),
        residents=(((0,), (0,)), ((0,), (0,))),
    )
    total = evaluate_horizon(case, plan)
    free = evaluate(case.instance(1, case.residents), plan.plans[1]).makespan_ns
    assert total.step_ns[1] > free
    shown = list(horizon_schedules(case, plan))
    assert tuple(each.makespan_ns for each in shown) == total.step_ns
    assert min(task.start_ns for task in shown[1].lane(Lane.LINK)) == link_left_ns(schedule)
    with pytest.raises(InfeasibleHorizonError, match="plans for 2 steps, got 1"):
        next(horizon_schedules(case, HorizonPlan(plans=plan.plans[:1], residents=plan.residents[:1])))
    with pytest.raises(InfeasibleHorizonError, match="layer 1 expert 2 and 0 others"):
        evaluate_horizon(case, replace(plan, residents=(((0,), (0,)), ((0,), (2,)))))


@pytest.mark.parametrize(
    ("residents", "message"),
    [
        ((((1,), (0,)), ((0,), (0,))), "own residents in step 0"),
        ((((0,), (0,)), ((2,), (0,))), "layer 0 expert 2 and 0 others"),
        ((((0,), (0,)), ((0,), (0, 1))), "at most 2 residents of 10 bytes in step 1, got 3"),
    ],
)
def test_residents_that_cannot_be_there_are_refused(residents, message):
    with pytest.raises(InfeasibleHorizonError, match=message):
        evaluate_horizon(horizon(), HorizonPlan(plans=(FIRST, SECOND), residents=residents))


def test_places_have_sizes():
    two_sizes = replace(COSTS, expert_bytes=(10, 20))
    case = horizon(costs=two_sizes, residents=((0, 1), ()))
    plan = HorizonPlan(
        plans=(FIRST, replace(SECOND, layers=(LayerPlan(cpu=(0, 1)), LayerPlan(gpu=(1,), cpu=(2,))))),
        residents=(((0, 1), ()), ((0,), (1,))),
    )
    with pytest.raises(InfeasibleHorizonError, match="at most 0 residents of 20 bytes in step 1, got 1"):
        evaluate_horizon(case, plan)


def test_whoever_leaves_must_be_done_before_the_slot_is_taken_again():
    # The slot with expert 2 of layer 0 is taken while layer 1 still needs its resident 0.
    counts = (((1, 0, 1), (1, 1, 0)), ((1, 1, 0), (0, 1, 1)))
    case = horizon(counts=counts)
    first = Plan(
        layers=(LayerPlan(gpu=(0, 2)), LayerPlan(gpu=(0, 1))),
        transfers=(Transfer(layer=0, expert=2), Transfer(layer=1, expert=1)),
    )
    second = Plan(layers=(LayerPlan(gpu=(0,), cpu=(1,)), LayerPlan(cpu=(1, 2))))
    times = swap_times(evaluate(case.instance(0, case.residents), first), 3)
    assert times.landed == {(0, 2), (1, 1)}
    assert times.taken_ns[1, 1] == FOR_EVER_NS
    assert times.leave_ns[0, 0] <= times.taken_ns[0, 2] < times.leave_ns[1, 0]
    both = (((0,), (0,)), ((0, 2), ()))
    with pytest.raises(InfeasibleHorizonError, match="1 that come and 1 that leave too late"):
        evaluate_horizon(case, HorizonPlan(plans=(first, second), residents=both))
    fine = replace(second, layers=(LayerPlan(cpu=(0, 1)), LayerPlan(cpu=(1, 2))))
    evaluate_horizon(case, HorizonPlan(plans=(first, fine), residents=(((0,), (0,)), ((2,), (0,)))))


def test_whoever_has_no_work_may_still_be_needed_until_its_gate():
    # As above, but nobody wants the resident of layer 1: that shows at its gate, after the slot is taken.
    case = horizon(counts=(((1, 0, 1), (0, 1, 0)), ((1, 1, 0), (0, 1, 1))))
    first = Plan(
        layers=(LayerPlan(gpu=(0, 2)), LayerPlan(gpu=(1,))),
        transfers=(Transfer(layer=0, expert=2), Transfer(layer=1, expert=1)),
    )
    schedule = evaluate(case.instance(0, case.residents), first)
    gates = {task.layer: task.end_ns for task in schedule.tasks if task.kind is TaskKind.DENSE}
    times = swap_times(schedule, 3)
    assert times.taken_ns[0, 2] < gates[1] == times.leave_ns[1, 0]
    second = Plan(layers=(LayerPlan(gpu=(0,), cpu=(1,)), LayerPlan(cpu=(1, 2))))
    with pytest.raises(InfeasibleHorizonError, match="1 that come and 1 that leave too late"):
        evaluate_horizon(case, HorizonPlan(plans=(first, second), residents=(((0,), (0,)), ((0, 2), ()))))


def test_swaps_fit_if_some_pairing_does():
    rng = np.random.default_rng(0)
    for _ in range(300):
        taken, leave = (rng.integers(0, 6, rng.integers(0, 4)).tolist() for _ in range(2))
        free = int(rng.integers(0, 3))
        some = any(
            all(leaver is None or leaver <= comer for comer, leaver in zip(taken, chosen, strict=True))
            for chosen in permutations([None] * free + leave, len(taken))
        )
        assert swaps_fit(taken, leave, free) == some


def test_wrong_horizons_are_refused():
    with pytest.raises(ValueError, match="number of steps"):
        horizon(counts=())
    with pytest.raises(ValueError, match="as many experts in every step"):
        horizon(counts=(((1, 0, 1), (0, 1, 0)), ((1, 1), (0, 1))))
    with pytest.raises(ValueError, match="as many plans as residents"):
        HorizonPlan(plans=(FIRST,), residents=())
    with pytest.raises(InfeasibleHorizonError, match="plans for 2 steps, got 1"):
        evaluate_horizon(horizon(), HorizonPlan(plans=(FIRST,), residents=(((0,), (0,)),)))
    assert horizon().part(1, 2).demands == horizon().demands[1:]
    said = tuple(
        PredictedDemand(probabilities=np.full((1, 2, 3), share), expected_tokens=np.full((1, 2, 3), share))
        for share in (0.25, 0.5)
    )
    assert horizon(predicted=said).part(1, 2).predicted == said[1:]
