"""On nominal speeds the simulated backend gives the exact evaluator's times, to the nanosecond."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from runtime_cases import feasible_cases, opened, program_of
from tiny_instances import instances_with_plans

from prescope.formulation import InfeasiblePlanError, Lane, TaskKind, evaluate
from prescope.runtime import OpKind, execute, run_plan
from prescope.runtime.backends.delays import Delay, swarm_speeds
from prescope.runtime.backends.sim import SimOptions


@settings(max_examples=300)
@given(instances_with_plans())
def test_executed_is_evaluated(case):
    instance, plan = case
    try:
        wanted = evaluate(instance, plan)
    except InfeasiblePlanError:
        return
    trace = run_plan(instance, plan)
    assert trace.schedule == wanted
    copies = [task for task in wanted.tasks if task.kind is TaskKind.COPY]
    assert trace.bytes_moved == sum(instance.costs.expert_bytes[task.layer] for task in copies)
    late = max([task.end_ns for task in copies], default=0) - wanted.makespan_ns
    assert trace.link_busy_ns == max(0, late)
    assert {(task.layer, task.expert) for task in copies if task.end_ns > wanted.makespan_ns} == set(
        trace.carried
    )


@pytest.mark.parametrize("told", [False, True])
def test_a_step_after_another_finds_the_link_as_that_one_left_it(told):
    carried = 0
    for instance, plan in feasible_cases(80, first=300):
        program = program_of((instance, plan))
        ready_ns = 0
        with opened(instance) as backend:
            for _ in range(3):
                trace = execute(backend, program, link_busy_ns=ready_ns if told else 0)
                assert trace.schedule == evaluate(replace(instance, link_ready_ns=ready_ns), plan)
                ready_ns = trace.link_busy_ns
                carried += len(trace.carried) > 1
    assert carried > 3


def test_equal_programs_and_options_give_equal_digests():
    for case in feasible_cases(20):
        options = SimOptions(speeds=swarm_speeds(5))
        digests = {run_plan(*case, options=options).digest for _ in range(2)}
        assert len(digests) == 1
        assert swarm_speeds(5) == swarm_speeds(5) != swarm_speeds(6)


def test_a_whole_program_at_once_takes_no_longer_than_gate_by_gate():
    for instance, plan in feasible_cases(60):
        program = program_of((instance, plan))
        with opened(instance) as backend:
            (trace,) = backend.replay([program])
        wanted = evaluate(instance, plan).makespan_ns
        # Nobody holds back the copies and nothing blocks the link: it may only be faster.
        assert trace.makespan_ns <= wanted


def test_a_delay_moves_the_makespan_by_at_most_itself():
    moved = 0
    for instance, plan in feasible_cases(40):
        base = run_plan(instance, plan).makespan_ns
        for op in program_of((instance, plan)).ops:
            if op.kind not in (OpKind.FORK, OpKind.JOIN):
                delay = Delay(kind=op.kind, layer=op.layer, expert=op.expert, extra_ns=50)
                shift = run_plan(instance, plan, options=SimOptions(delays=(delay,))).makespan_ns - base
                assert 0 <= shift <= 50
                moved += shift > 0
    assert moved > 100


def test_swarm_speeds_never_break_a_correct_program():
    for seed, case in enumerate(feasible_cases(1000, first=20_000)):
        trace = run_plan(*case, options=SimOptions(speeds=swarm_speeds(seed), chunks=1 + seed % 5))
        assert len(trace.schedule.layer_end_ns) == case[0].layers


def test_tasks_of_a_lane_never_overlap_at_any_speed():
    for seed, case in enumerate(feasible_cases(60, first=40_000)):
        trace = run_plan(*case, options=SimOptions(speeds=swarm_speeds(seed)))
        for lane in Lane:
            tasks = sorted(trace.schedule.lane(lane), key=lambda task: (task.start_ns, task.end_ns))
            for earlier, later in zip(tasks, tasks[1:], strict=False):
                assert earlier.end_ns <= later.start_ns
