"""What the flow takes for granted of an executed plan, nanosecond by nanosecond."""


from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_horizons import plan_and_leave_the_link_busy, plan_step, tiny_horizon

from prescope.formulation import evaluate
from prescope.formulation.horizon_evaluator import link_left_ns
from prescope.formulation.schedule import Lane, TaskKind
from prescope.solver.residency import Belady, LeastRecentlyUsed, run_horizon
from prescope.solver.residency.flow_rule import _made_anyway


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), steps=st.integers(1, 4))
def test_copies_for_nothing_leave_the_link_idle_and_those_of_the_step_before_do_not(seed, steps):
    horizon = tiny_horizon(seed, steps)
    belady = Belady([demand.counts for demand in horizon.demands])
    executed = run_horizon(horizon, belady, plan_and_leave_the_link_busy)
    copied, idle_ns = _made_anyway(horizon, executed)
    left_ns, used, idle = 0, set(), []
    for step, (plan, residents) in enumerate(zip(executed.plans, executed.residents, strict=True)):
        schedule = evaluate(horizon.instance(step, residents, left_ns), plan)
        computed = {
            (task.layer, task.expert)
            for task in schedule.lane(Lane.GPU)
            if task.kind is TaskKind.COMPUTE and task.expert not in residents[task.layer]
        }
        busy = set(range(left_ns))
        for task in schedule.lane(Lane.LINK):
            if (task.layer, task.expert) in computed:
                used.add((step * horizon.layers + task.layer, task.expert))
                busy |= set(range(task.start_ns, task.end_ns))
        begins = [0, *schedule.layer_end_ns[:-1]]
        idle += [
            sum(moment not in busy for moment in range(begin, end))
            for begin, end in zip(begins, schedule.layer_end_ns, strict=True)
        ]
        left_ns = link_left_ns(schedule)
    assert idle_ns == idle
    assert {(int(time), int(expert)) for time, expert in zip(*copied.nonzero(), strict=True)} == used


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_places_of_a_layer_stay_with_it_where_asked_for(seed):
    horizon = tiny_horizon(seed, 4)
    rule = LeastRecentlyUsed(horizon.layers, horizon.experts)
    plan = run_horizon(horizon, rule, plan_step, per_layer=True)
    assert len({tuple(len(row) for row in residents) for residents in plan.residents}) == 1
