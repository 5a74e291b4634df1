"""Steps whose slots outlive them, on every backend: contents stay, and after a fault nothing is believed."""

import random
import threading
import time
from contextlib import contextmanager
from itertools import pairwise

import pytest
from hooked_store import HookedStore
from pooled_programs import pooled_runs

from prescope.runtime import (
    DeviceArena,
    ExecutionError,
    OpKind,
    SlotState,
    SlotStateError,
    execute,
    open_backend,
    preamble,
    synthetic_store,
)
from prescope.runtime.backends.cpu import CpuOptions
from prescope.runtime.backends.delays import Delay, swarm_speeds
from prescope.runtime.backends.disk import DiskOptions
from prescope.runtime.backends.sim import SimOptions
from prescope.runtime.happens_before import hazards


def options(name, seed=0):
    return {
        "sim": SimOptions(speeds=swarm_speeds(seed)),
        "cpu": CpuOptions(dilation=1.0),
        "disk": DiskOptions(depth=1 + seed % 4, stall_floor_s=20.0),
    }[name]


@contextmanager
def opened(name, run, settings=None, jitter=None):
    store = synthetic_store(layers=run.instance.layers, experts=run.instance.experts)
    if jitter is not None:
        store = HookedStore(store, jitter)
    arena = DeviceArena(store, residents=((),) * store.layers, slots=run.rows)
    backend = open_backend(name, store, arena, settings or options(name))
    try:
        yield backend
    finally:
        backend.close()


def expect_contents(backend, program):
    for slot, owner in program.final().items():
        assert backend.slots.holds(slot) == owner
        assert backend.slots.state(slot) is SlotState.READY


def test_every_computation_of_every_step_reads_its_own_weights(name):
    hits = 0
    for seed, (run, programs) in enumerate(pooled_runs(40, first=1000, steps=4)):
        with opened(name, run, options(name, seed)) as backend:
            for program in programs:
                trace = execute(backend, program)
                assert trace.carried == ()
                expect_contents(backend, program)
                found = {(layer, expert) for _, layer, expert in program.initial}
                hits += sum(
                    op.kind is OpKind.COMPUTE and (op.layer, op.expert) in found for op in program.ops
                )
    assert hits > 100


def test_reads_that_end_in_any_order_harm_nothing():
    for seed, (run, programs) in enumerate(pooled_runs(25, first=4000, steps=4)):
        generator, lock = random.Random(seed), threading.Lock()

        def jitter(layer, expert, generator=generator, lock=lock):
            with lock:
                pause_s = generator.random() * 0.001
            time.sleep(pause_s)

        with opened("disk", run, DiskOptions(depth=4), jitter) as backend:
            for program in programs:
                execute(backend, program)
                expect_contents(backend, program)


def test_a_fresh_backend_needs_the_contents_first(name):
    run, programs = next(
        (run, programs)
        for run, programs in pooled_runs(100, first=2000)
        if any(op.slot in dict.fromkeys(slot for slot, _, _ in programs[2].initial) for op in programs[2].ops)
        and not any(op.kind is OpKind.COPY for op in programs[2].ops)
    )
    with opened(name, run) as backend:
        with pytest.raises(ExecutionError) as caught:
            execute(backend, programs[2])
        assert isinstance(caught.value.__cause__, SlotStateError)
        backend.reset()
        execute(backend, preamble(programs[2]))
        execute(backend, programs[2])


def test_after_a_fault_no_slot_is_believed_to_hold_anything(name):
    run, programs = next(
        (run, programs) for run, programs in pooled_runs(100, first=3000) if len(programs[0].final()) > 3
    )
    with opened(name, run) as backend:
        execute(backend, programs[0])
        backend.begin_step(programs[1].wave(-1))
        backend.cancel()
        backend.reset()
        assert {backend.slots.holds(slot) for slot in range(run.rows)} == {None}
        execute(backend, preamble(programs[1]))
        execute(backend, programs[1])
        expect_contents(backend, programs[1])


def test_the_simulator_runs_into_nearly_all_lost_waits():
    found = mutants = 0
    swarm = [SimOptions(speeds=swarm_speeds(seed)) for seed in range(12)]
    for run, programs in pooled_runs(25, first=5000, max_layers=3):
        for first, second in pairwise(programs):
            for edge in second.edges():
                mutant = second.without_edges([edge])
                if not any(hazards(first, mutant)):
                    continue
                mutants += 1
                waited_for = second.ops[edge[0]]
                if waited_for.kind is OpKind.FORK:
                    # It stands for what the step before reads and writes.
                    late = [op for op in first.ops if op.slot is not None]
                else:
                    late = [waited_for]
                directed = [SimOptions(delays=(delay(op),)) for op in late]
                found += any(sim_finds(run, (first, mutant), each) for each in (*directed, *swarm))
                assert not any(sim_finds(run, (first, second), each) for each in directed)
    assert mutants > 150
    assert found >= 0.95 * mutants


def test_the_simulator_sees_a_step_end_before_its_last_copy():
    run, first = next(
        (run, programs[0])
        for run, programs in pooled_runs(100, first=6000)
        if programs[0].ops[-1].waits and programs[0].ops[programs[0].ops[-1].waits[-1]].kind is OpKind.COPY
    )
    last = first.ops[-1].waits[-1]
    mutant = first.without_edges([(last, first.ops[-1].id)])
    late = SimOptions(delays=(delay(first.ops[last]),))
    assert not sim_finds(run, (first,), late)
    assert sim_finds(run, (mutant,), late)


def delay(op):
    return Delay(kind=op.kind, layer=op.layer, expert=op.expert, extra_ns=10**6)


def sim_finds(run, programs, settings):
    with opened("sim", run, settings) as backend:
        execute(backend, preamble(programs[0]))
        try:
            backend.replay(programs)
        except ExecutionError:
            return True
    return False
