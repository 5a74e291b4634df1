"""A link that is still busy when a step ends delays the next one, and whoever plans it is told."""

from tiny_horizons import plan_and_leave_the_link_busy, tiny_horizon

from prescope.formulation import evaluate
from prescope.formulation.horizon_evaluator import horizon_schedules, link_left_ns
from prescope.solver.residency import LeastRecentlyUsed, run_horizon


def test_steps_are_planned_with_the_link_as_the_one_before_leaves_it_and_filling_delays_nothing():
    busy = filled = 0
    for seed in range(120):
        horizon, told, alone = tiny_horizon(seed, 3), [], []

        def plan_step(instance, told=told, alone=alone):
            plan = plan_and_leave_the_link_busy(instance)
            told.append(instance.link_ready_ns)
            alone.append((evaluate(instance, plan).makespan_ns, len(plan.transfers)))
            return plan

        executed = run_horizon(horizon, LeastRecentlyUsed(horizon.layers, horizon.experts), plan_step)
        schedules = list(horizon_schedules(horizon, executed))
        assert told == [0, *map(link_left_ns, schedules[:-1])]
        assert [time_ns for time_ns, _ in alone] == [schedule.makespan_ns for schedule in schedules]
        busy += sum(ready_ns > 0 for ready_ns in told)
        filled += sum(
            ready_ns > 0 and len(plan.transfers) > copies
            for ready_ns, plan, (_, copies) in zip(told, executed.plans, alone, strict=True)
        )
    assert busy > 20
    assert filled > 2
