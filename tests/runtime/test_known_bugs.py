"""Scenarios in which comparable systems went wrong."""

import pytest

from prescope.formulation import CostModel, LinearTime, Link
from prescope.runtime import (
    DeviceArena,
    ExecutionError,
    OpKind,
    PlanError,
    ProgramBuilder,
    Stepper,
    backends,
    open_backend,
    synthetic_store,
    verify,
)
from prescope.runtime.backends.cpu import CpuOptions
from prescope.runtime.backends.delays import Delay
from prescope.runtime.backends.sim import SimOptions

LAYERS, EXPERTS = 2, 11
COSTS = CostModel(
    expert_bytes=(1000,) * LAYERS,
    link=Link(bytes_per_s=10**9),
    gpu=(LinearTime(fixed_ns=700),),
    cpu=(LinearTime(fixed_ns=700),),
    dense=(LinearTime(fixed_ns=300),),
)
LONG_COPY = Delay(kind=OpKind.COPY, layer=1, expert=8, extra_ns=10**8)
OPTIONS = {"sim": None, "cpu": CpuOptions(dilation=20.0), "disk": None}


@pytest.fixture(params=backends())
def name(request):
    return request.param


@pytest.fixture(params=[name for name in backends() if name != "disk"])
def modelled(request):
    """Backends on which copies take the modelled time."""
    return request.param


def machine(name, slots, options=None):
    store = synthetic_store(layers=LAYERS, experts=EXPERTS)
    arena = DeviceArena(store, residents=((),) * LAYERS, slots=slots)
    backend = open_backend(name, store, arena, options or OPTIONS[name])
    builder = ProgramBuilder(costs=COSTS, experts=EXPERTS, slots=slots, residents=((),) * LAYERS)
    return backend, Stepper(builder, backend)


def step(stepper, slots, experts, work=None, first=()):
    stepper.begin_step(first, batch_tokens=1)
    copied = {(layer, expert) for layer, expert, _ in first}
    for layer in range(LAYERS):
        stepper.dense_begin(layer)
        stepper.dense_end()
        copies = [
            (layer, expert, turn % slots)
            for turn, expert in enumerate(experts)
            if (layer, expert) not in copied
        ]
        gpu = [(expert, 1) for expert in experts]
        stepper.wait(stepper.submit(layer, gpu=gpu, copies=copies, work=work))
    trace = stepper.end_step()
    verify(stepper.program())
    return trace


@pytest.mark.parametrize("slots", [1, 2, 3, 4])
def test_more_experts_than_slots_and_slots_that_do_not_divide_them(name, slots):
    backend, stepper = machine(name, slots)
    try:
        for _ in range(3):
            trace = step(stepper, slots, range(7))
            assert trace.bytes_moved == LAYERS * 7 * 1000
    finally:
        backend.close()


def test_what_a_failed_step_copied_is_not_believed_to_be_there(name):
    def fail(weights):
        raise ValueError("broken")

    backend, stepper = machine(name, 2)
    try:
        with pytest.raises(ExecutionError, match="broken"):
            step(stepper, 2, [3, 4], {4: fail})
        stepper.reset()
        stepper.begin_step(batch_tokens=1)
        stepper.dense_begin(0)
        stepper.dense_end()
        with pytest.raises(PlanError, match="expected a copy of layer 0 expert 3"):
            stepper.submit(0, gpu=[(3, 1)])
        stepper.reset()
        step(stepper, 2, [3, 4])
    finally:
        backend.close()


def test_what_a_step_copied_is_not_believed_to_be_there_in_the_next(name):
    backend, stepper = machine(name, 2)
    try:
        step(stepper, 2, [3, 4])
        stepper.begin_step(batch_tokens=1)
        stepper.dense_begin(0)
        stepper.dense_end()
        with pytest.raises(PlanError, match="expected a copy"):
            stepper.submit(0, gpu=[(3, 1)])
    finally:
        backend.close()


def test_a_prefetch_that_nobody_uses_holds_nothing_up(name):
    backend, stepper = machine(name, 2)
    try:
        trace = step(stepper, 2, [3, 4], first=[(0, 9, 0)])
        again = step(stepper, 2, [3, 4])
        assert trace.bytes_moved == 5 * 1000
        assert again.bytes_moved == 4 * 1000
    finally:
        backend.close()


def test_copies_left_over_for_several_steps_are_carried_and_counted(modelled):
    backend, stepper = machine(modelled, 4)
    one, step_ns = 1000, LAYERS * (300 + 700)
    try:
        # Four copies of 1000 ns from 2000 ns on, against steps of 2000 ns; later steps copy nothing.
        waiting = [4 * one, 2 * one, 0]
        for turn, busy_ns in enumerate(waiting):
            first = [(1, expert, expert) for expert in range(4)] if turn == 0 else []
            stepper.begin_step(first, batch_tokens=1, link_busy_ns=0 if turn else 2 * one)
            for layer in range(LAYERS):
                stepper.dense_begin(layer)
                stepper.dense_end()
                stepper.wait(stepper.submit(layer, cpu=[(5, 1)]))
            trace = stepper.end_step()
            if modelled == "sim":
                assert trace.makespan_ns == step_ns
                assert trace.link_busy_ns == busy_ns
                assert len(trace.carried) == (0 if turn else 4)
        step(stepper, 2, [3, 4])
    finally:
        backend.close()


def test_a_copy_left_over_from_an_older_step_does_not_spoil_what_follows_a_reset(modelled):
    # On the emulated machine a copy takes a second, so it is surely under way.
    options = None if modelled == "sim" else CpuOptions(dilation=10.0, delays=(LONG_COPY,))
    backend, stepper = machine(modelled, 4, options or SimOptions(delays=(LONG_COPY,)))
    try:
        for turn in range(3):
            stepper.begin_step([(1, 8, 0)] if turn == 0 else [], batch_tokens=1)
            for layer in range(LAYERS):
                stepper.dense_begin(layer)
                stepper.dense_end()
                stepper.wait(stepper.submit(layer, cpu=[(5, 1)]))
            trace = stepper.end_step()
            assert trace.link_busy_ns > 0
        backend.cancel()
        stepper.reset()
        step(stepper, 4, [0, 1, 2, 3])
    finally:
        backend.close()
