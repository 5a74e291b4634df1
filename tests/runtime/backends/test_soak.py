"""Many random programs with faults: nothing hangs, nothing leaks, the step after a fault is right."""

import random
import threading

import pytest
from runtime_cases import feasible_cases, opened, program_of

from prescope.runtime import ExecutionError, OpKind, execute
from prescope.runtime.backends.cpu import CpuOptions
from prescope.runtime.backends.delays import swarm_speeds
from prescope.runtime.backends.sim import SimOptions


def failing_execute(backend, program, victim):
    """Run a step in which one computation fails."""

    def fail(_weights):
        raise ValueError("fault")

    backend.begin_step(program.wave(-1))
    for op in program.ops:
        if op.kind is OpKind.DENSE:
            backend.dense_begin(op)
            backend.dense_end(op)
            work = {victim.expert: fail} if victim.layer == op.layer else None
            backend.wait(backend.submit(program.wave(op.layer), work))
    backend.end_step(program.ops[-1])


def soak(name, count, first, options):
    generator = random.Random(first)
    threads = threading.active_count()
    faults = 0
    for turn, case in enumerate(feasible_cases(count, first=first)):
        program = program_of(case)
        computes = [op for op in program.ops if op.kind is OpKind.COMPUTE]
        with opened(case[0], name, options(turn)) as backend:
            wanted = execute(backend, program)
            if computes and generator.random() < 0.5:
                faults += 1
                with pytest.raises(ExecutionError, match="fault"):
                    failing_execute(backend, program, generator.choice(computes))
                backend.reset()
                again = execute(backend, program)
                assert len(again.schedule.tasks) == len(wanted.schedule.tasks)
            assert set(backend.outcomes()) <= {"done", "queued", "running"}
    assert threading.active_count() == threads
    assert faults > count / 4


def sim_options(turn):
    return SimOptions(speeds=swarm_speeds(turn), chunks=1 + turn % 4)


def cpu_options(_turn):
    return CpuOptions(dilation=1.0)


def test_simulated_programs_with_faults():
    soak("sim", 500, 100_000, sim_options)


def test_emulated_programs_with_faults():
    soak("cpu", 150, 110_000, cpu_options)


@pytest.mark.slow
def test_ten_thousand_programs_with_faults():
    soak("sim", 10_000, 200_000, sim_options)
    soak("cpu", 2_000, 300_000, cpu_options)
