"""The emulated accelerator when something hangs, and over many programs."""

import gc
import threading
import time

import pytest
from runtime_cases import feasible_cases, opened, program_of

from prescope.formulation import CostModel, LinearTime, Link
from prescope.runtime import (
    DeviceArena,
    ExecutionError,
    HostStore,
    ProgramBuilder,
    SlotState,
    StallError,
    Stepper,
    execute,
    open_backend,
    synthetic_store,
)
from prescope.runtime.backends.cpu import CpuOptions

OPTIONS = CpuOptions(dilation=1.0, stall_floor_s=0.05, drain_s=0.05)
COSTS = CostModel(
    expert_bytes=(100,),
    link=Link(bytes_per_s=10**9),
    gpu=(LinearTime(fixed_ns=100),),
    cpu=(LinearTime(fixed_ns=100),),
    dense=(LinearTime(fixed_ns=100),),
)


def make(store, options=OPTIONS):
    arena = DeviceArena(store, residents=((0,),), slots=2)
    backend = open_backend("cpu", store, arena, options)
    builder = ProgramBuilder(costs=COSTS, experts=store.experts, slots=2, residents=((0,),))
    return backend, Stepper(builder, backend)


def step(stepper, work=None, slot=0):
    stepper.begin_step(batch_tokens=1)
    stepper.dense_begin(0)
    stepper.dense_end()
    ticket = stepper.submit(0, gpu=[(0, 1), (1, 1)], cpu=[(2, 1)], copies=[(0, 1, slot)], work=work)
    stepper.wait(ticket)
    return stepper.end_step()


def test_a_hanging_computation_is_reported_and_the_next_step_is_right():
    release = threading.Event()
    backend, stepper = make(synthetic_store(layers=1, experts=4))
    before = set(threading.enumerate())
    try:
        with pytest.raises(StallError, match="gpu: runs compute 4"):
            step(stepper, {1: lambda weights: release.wait()})
        stepper.reset()
        trace = step(stepper)
        assert trace.degraded == ("stream gpu hung and was given a new thread",)
        assert len(set(threading.enumerate()) - before) == 1
    finally:
        release.set()
        backend.close()
    until = time.monotonic() + 5
    while any(thread.name.startswith("prescope-") for thread in threading.enumerate()):
        assert time.monotonic() < until, "the thread left behind did not end"
        time.sleep(0.01)


class SlowRow(HostStore):
    """A host store whose row of expert 1 cannot be read until it is released."""

    released = threading.Event()

    def row(self, layer, expert):
        if expert == 1:
            self.released.wait()
        return super().row(layer, expert)


def test_a_slot_that_a_hanging_copy_may_still_write_is_given_up_until_it_ends():
    SlowRow.released = threading.Event()
    plain = synthetic_store(layers=1, experts=4)
    backend, stepper = make(SlowRow(plain.rows, plain.parts))
    try:
        with pytest.raises(StallError, match="link: runs copy"):
            step(stepper)
        stepper.reset()
        assert backend.slots.state(0) is SlotState.ZOMBIE
        with pytest.raises(ExecutionError, match="got zombie"):
            step(stepper)
        stepper.reset()
        SlowRow.released.set()
        until = time.monotonic() + 5
        while backend.slots.state(0) is SlotState.ZOMBIE:
            assert time.monotonic() < until
            time.sleep(0.01)
        step(stepper)
    finally:
        SlowRow.released.set()
        backend.close()


def test_close_does_not_wait_for_what_hangs():
    release = threading.Event()
    backend, stepper = make(synthetic_store(layers=1, experts=4))
    try:
        with pytest.raises(StallError):
            step(stepper, {2: lambda weights: release.wait()})
        backend.close()
        backend.close()
    finally:
        release.set()


def test_a_limit_given_by_the_caller_counts():
    backend, stepper = make(
        synthetic_store(layers=1, experts=4), CpuOptions(dilation=10**6, stall_floor_s=100.0)
    )
    try:
        stepper.begin_step(batch_tokens=1)
        stepper.dense_begin(0)
        stepper.dense_end()
        ticket = stepper.submit(0, gpu=[(0, 1)])
        with pytest.raises(StallError, match=r"within 0\.010 s"):
            stepper.wait(ticket, timeout_s=0.01)
    finally:
        backend.close()


def test_a_forgotten_backend_ends_its_threads():
    def forget():
        return make(synthetic_store(layers=1, experts=4))[0].threads

    threads = forget()
    gc.collect()
    for thread in threads:
        thread.join(5)
        assert not thread.is_alive()


def test_hundreds_of_programs_run_right_and_leave_nothing():
    before = threading.active_count()
    for case in feasible_cases(250, first=60_000):
        program = program_of(case)
        with opened(case[0], "cpu", CpuOptions(dilation=1.0)) as backend:
            for _ in range(3):
                trace = execute(backend, program)
                assert len(trace.schedule.layer_end_ns) == case[0].layers
            assert threading.active_count() == before + 3
    assert threading.active_count() == before


def test_random_failures_in_a_row_leave_one_backend_usable():
    store = synthetic_store(layers=1, experts=4)
    backend, stepper = make(store, CpuOptions(dilation=1.0))
    try:
        for turn in range(100):

            def fail(weights, turn=turn):
                raise ValueError(f"failure {turn}")

            failing = turn % 3
            with pytest.raises(ExecutionError, match=f"failure {turn}"):
                step(stepper, {failing: fail})
            stepper.reset()
            step(stepper, slot=turn % 2)
    finally:
        backend.close()
