"""The backend over a disk: reads in flight, their order, their failures, and what is measured."""

import gc
import threading
import time
import weakref
from contextlib import contextmanager

import pytest
import torch
from hooked_store import hooked_store

from prescope.formulation import CostModel, LinearTime, Link, TaskKind
from prescope.runtime import (
    DeviceArena,
    ExecutionError,
    ProgramBuilder,
    SlotState,
    StallError,
    Stepper,
    arena_bytes,
    open_backend,
    verify,
)
from prescope.runtime.backends.disk import DiskOptions

LAYERS, EXPERTS = 2, 8
COSTS = CostModel(
    expert_bytes=(100,) * LAYERS,
    link=Link(bytes_per_s=10**9),
    gpu=(LinearTime(fixed_ns=100),),
    cpu=(LinearTime(fixed_ns=100),),
    dense=(LinearTime(fixed_ns=100),),
)
PATIENT_S = 20


class Rig:
    """A pool of rows over a store, whose steps remember what every computation read."""

    def __init__(self, slots=4, hook=None, carry=True, **options):
        self.store = hooked_store(layers=LAYERS, experts=EXPERTS, hook=hook)
        self.arena = DeviceArena(self.store, residents=((),) * LAYERS, slots=slots)
        settings = {"stall_floor_s": PATIENT_S, "drain_s": 1.0} | options
        self.backend = open_backend("disk", self.store, self.arena, DiskOptions(**settings))
        self.builder = ProgramBuilder(
            costs=COSTS, experts=EXPERTS, slots=slots, residents=((),) * LAYERS, carry=carry
        )
        self.stepper = Stepper(self.builder, self.backend)
        self.order = []

    def step(self, *waves, first=(), work=None, cpu=()):
        self.order.clear()
        self.stepper.begin_step(first, batch_tokens=1)
        for layer in range(LAYERS):
            gpu, copies = waves[layer] if layer < len(waves) else ((), ())
            self.stepper.dense_begin(layer)
            self.stepper.dense_end()
            ticket = self.stepper.submit(
                layer,
                gpu=[(expert, 1) for expert in gpu],
                cpu=[(expert, 1) for expert in cpu],
                copies=[(layer, *copy) if len(copy) == 2 else copy for copy in copies],
                work={expert: self.reader(layer, expert, work) for expert in (*gpu, *cpu)},
            )
            self.stepper.wait(ticket)
        trace = self.stepper.end_step()
        verify(self.stepper.program())
        return trace

    def reader(self, layer, expert, work=None):
        def run(weights):
            if work is not None:
                work(layer, expert)
            self.order.append((layer, expert))
            wanted = self.store.views(layer, self.store.hidden.row(layer, expert))
            assert all(torch.equal(part, wanted[name]) for name, part in weights.items())

        return run


@contextmanager
def rig(**settings):
    made = Rig(**settings)
    try:
        yield made
    finally:
        made.backend.close()


FILL = ((0, 1, 2, 3), [(0, 0), (1, 1), (2, 2), (3, 3)])


def test_as_many_reads_are_in_flight_as_asked_for_and_no_more():
    for depth in (1, 3):
        barrier, lock, running, most = threading.Barrier(depth), threading.Lock(), [0], [0]

        def hook(layer, expert, barrier=barrier, lock=lock, running=running, most=most):
            with lock:
                running[0] += 1
                most[0] = max(most[0], running[0])
            # Passed only by as many reads as are meant to run at once.
            barrier.wait(PATIENT_S)
            with lock:
                running[0] -= 1

        with rig(slots=6, hook=hook, depth=depth) as r:
            r.step(((0, 1, 2, 3, 4, 5), [(expert, expert) for expert in range(6)]))
            assert most[0] == depth


def test_reads_start_in_link_order():
    started = []
    with rig(hook=lambda layer, expert: started.append(expert), depth=1) as r:
        r.step(((0, 1, 2, 3), [(3, 0), (1, 1), (2, 2), (0, 3)]))
    assert started == [3, 1, 2, 0]


def test_whichever_expert_has_landed_is_computed_first():
    computed = threading.Event()

    def hook(layer, expert):
        if expert == 0:
            assert computed.wait(PATIENT_S)

    with rig(hook=hook, depth=2) as r:
        r.step(FILL, work=lambda layer, expert: computed.set() if expert == 3 else None)
        assert r.order[-1] == (0, 0)
        assert len(r.order) == 4


def test_a_computation_does_not_take_a_slot_whose_read_was_overtaken_by_later_ones():
    # In the program the second computation's wait for the first copy is implied by link order.
    def hook(layer, expert):
        if expert == 0:
            time.sleep(0.05)

    with rig(hook=hook, depth=4) as r:
        r.step(((3, 0), [(0, 0), (3, 3)]))
        program = r.stepper.program()
        second = next(op for op in program.ops if (op.stream, op.expert) == ("gpu", 0))
        assert all(program.ops[wait].stream != "link" for wait in second.waits)
        assert r.order == [(0, 3), (0, 0)]


def test_a_read_does_not_take_a_slot_whose_computation_was_overtaken_by_later_ones():
    # In the program the last copy's wait for the first computation is implied by the second one's.
    busy = threading.Event()

    def hook(layer, expert):
        if expert == 0:
            assert busy.wait(PATIENT_S)

    def work(layer, expert):
        if expert == 2:
            # The first read lands while the caller computes this one.
            busy.set()
            time.sleep(0.05)

    with rig(slots=3, hook=hook, depth=4) as r:
        r.step(((0, 1, 2, 3, 4), [(0, 0), (1, 1), (2, 2), (3, 1), (4, 0)]), work=work)
        ops = r.stepper.program().ops
        last = next(op for op in ops if (op.kind, op.expert) == ("copy", 4))
        assert all(ops[wait].expert != 0 for wait in last.waits)
        assert r.order.index((0, 2)) < r.order.index((0, 0)) < r.order.index((0, 4))


def test_reads_to_one_slot_never_overlap_and_wait_for_its_reader():
    running, lock = set(), threading.Lock()
    slot_of = {0: 0, 1: 0, 2: 0, 3: 1}

    def hook(layer, expert):
        with lock:
            assert slot_of[expert] not in running
            running.add(slot_of[expert])
        time.sleep(0.002)
        with lock:
            running.discard(slot_of[expert])

    with rig(slots=2, hook=hook, depth=4) as r:
        for _ in range(5):
            r.step(((3, 0, 1, 2), [(3, 1), (0, 0), (1, 0), (2, 0)]))
            # Nobody computes the first of these, yet the second must not land under it.
            r.stepper.reset()
            r.step(((1,), [(0, 0), (1, 0)]))
            r.stepper.reset()


def test_rows_kept_from_earlier_steps_are_not_read_again_and_the_step_ends_with_its_reads():
    reads = []

    def hook(layer, expert):
        time.sleep(0.005)
        reads.append((layer, expert))

    with rig(hook=hook, depth=2) as r:
        trace = r.step(((0,), [(0, 0), (1, 1, 1), (1, 2, 2)]), ((), ()))
        assert reads and set(reads) == {(0, 0), (1, 1), (1, 2)}
        assert trace.carried == ()
        assert [r.backend.slots.state(slot) for slot in range(3)] == [SlotState.READY] * 3
        again = r.step(((0,), ()), ((1, 2), ()))
        assert len(reads) == 3
        assert again.row_bytes_moved == 0
        assert sorted(r.order) == [(0, 0), (1, 1), (1, 2)]


def test_without_carried_contents_reads_nobody_needs_go_on_into_the_next_step():
    release = threading.Event()

    def hook(layer, expert):
        if expert == 7:
            assert release.wait(PATIENT_S)

    with rig(hook=hook, carry=False) as r:
        trace = r.step(((0,), [(0, 0), (1, 7, 1)]))
        assert trace.carried == ((1, 7),)
        r.step(((0,), [(0, 0)]))
        release.set()
        r.step(((0,), [(0, 1)]))


def test_a_failing_read_ends_in_its_error_and_the_next_step_is_right():
    broken = [True]

    def hook(layer, expert):
        if broken[0] and (layer, expert) == (0, 2):
            raise OSError(5, "the disk does not answer")

    with rig(hook=hook) as r:
        r.step(((0, 1), [(0, 0), (1, 1)]))
        with pytest.raises(ExecutionError, match="the disk does not answer") as caught:
            r.step(((0, 2), [(2, 2), (3, 3)]))
        assert isinstance(caught.value.__cause__, OSError)
        r.stepper.reset()
        assert r.stepper.contents() == {}
        assert {r.backend.slots.holds(slot) for slot in range(4)} == {None}
        broken[0] = False
        r.step(((0, 2), [(0, 0), (2, 2)]))
        assert r.stepper.contents() == {0: (0, 0), 2: (0, 2)}


def test_many_random_failures_in_a_row_leave_the_backend_usable():
    failing = [None]

    def hook(layer, expert):
        time.sleep(0.0005)
        if expert == failing[0]:
            raise OSError("fault")

    with rig(hook=hook, depth=3) as r:
        for turn in range(40):
            failing[0] = turn % 4
            with pytest.raises(ExecutionError, match="fault"):
                r.step(FILL)
            r.stepper.reset()
            failing[0] = None
            r.step(FILL)
            r.step(((0, 1), ()))
            r.stepper.reset()


def test_a_read_that_hangs_is_reported_and_its_slot_given_up_until_it_ends():
    release = threading.Event()

    def hook(layer, expert):
        if expert == 1:
            release.wait(PATIENT_S)

    with rig(hook=hook, depth=2, stall_floor_s=0.1, drain_s=0.05) as r:
        with pytest.raises(StallError, match="link: runs copy .*expert 1"):
            r.step(((0, 1), [(0, 0), (1, 1)]))
        r.stepper.reset()
        assert r.backend.slots.state(1) is SlotState.ZOMBIE
        trace = r.step(((0,), [(0, 0)]))
        assert [words for words in trace.degraded if "hung" in words]
        release.set()
        until = time.monotonic() + PATIENT_S
        while r.backend.slots.state(1) is SlotState.ZOMBIE:
            assert time.monotonic() < until
            time.sleep(0.005)
        r.stepper.reset()
        r.step(((0, 1), [(0, 0), (1, 1)]))


def test_an_interrupt_goes_through_and_the_next_step_is_right():
    def interrupt(layer, expert):
        raise KeyboardInterrupt

    with rig() as r:
        with pytest.raises(KeyboardInterrupt):
            r.step(FILL, work=interrupt)
        r.stepper.reset()
        r.step(FILL)


def test_an_interrupt_before_the_work_has_begun_leaves_nothing_running(monkeypatch):
    def interrupted(worker, node):
        raise KeyboardInterrupt

    with rig(drain_s=PATIENT_S) as r:
        with monkeypatch.context() as patch:
            patch.setattr(r.backend, "_carry_out", interrupted)
            with pytest.raises(KeyboardInterrupt):
                r.step(FILL)
        began = time.monotonic()
        r.stepper.reset()
        assert time.monotonic() - began < PATIENT_S / 2
        assert set(r.backend.outcomes()) == {"done", "cancelled"}
        assert r.step(FILL).degraded == ()


def test_computations_run_on_the_callers_thread_without_gradients_and_with_the_threads_asked_for():
    seen = []

    def look(layer, expert):
        seen.append((threading.current_thread(), torch.is_grad_enabled(), torch.get_num_threads()))

    before = torch.get_num_threads()
    with rig(compute_threads=before + 1) as r:
        assert torch.get_num_threads() == before
        r.step(FILL, work=look)
        r.step(FILL[:1] + ((),), work=look)
    assert set(seen) == {(threading.current_thread(), False, before + 1)}
    assert torch.get_num_threads() == before
    assert torch.is_grad_enabled()


def test_the_host_computes_from_rows_read_for_it():
    with rig() as r:
        r.step(((0,), [(0, 0)]), cpu=(5, 6))
        assert sorted(r.order) == [(0, 0), (0, 5), (0, 6), (1, 5), (1, 6)]


def test_the_trace_says_what_really_happened():
    with rig(hook=lambda layer, expert: time.sleep(0.01), depth=1) as r:
        r.store.degraded = ("buffered reads",)
        began = time.perf_counter_ns()
        trace = r.step(((0, 1), [(0, 0), (1, 1)]))
        took = time.perf_counter_ns() - began
        assert 20_000_000 <= trace.makespan_ns <= took
        assert trace.dilation == 1.0
        assert trace.violations == ()
        assert trace.degraded == ("buffered reads",)
        assert trace.bytes_moved == 200
        assert trace.row_bytes_moved == 2 * (r.store.row_bytes(0) + 512)
        copies = [task for task in trace.schedule.tasks if task.kind is TaskKind.COPY]
        assert all(task.duration_ns >= 10_000_000 for task in copies)
        assert copies[0].end_ns <= copies[1].start_ns


def test_the_link_is_not_held_up_by_what_was_forecast():
    with rig() as r:
        r.stepper.begin_step([(0, 0, 0)], batch_tokens=1, link_busy_ns=10**15)
        r.stepper.dense_begin(0)
        r.stepper.dense_end()
        r.stepper.wait(r.stepper.submit(0, gpu=[(0, 1)]))


def test_a_step_keeps_nothing_of_its_work():
    class Result:
        pass

    with rig() as r:
        kept = Result()
        gone = weakref.ref(kept)
        r.step(FILL, work=lambda layer, expert, kept=kept: None)
        del kept
        gc.collect()
        assert gone() is None


def test_rows_read_for_ever_are_not_remembered_for_ever():
    with rig() as r:
        r.step(FILL)
        gc.collect()
        before = len(gc.get_objects())
        for _ in range(50):
            r.step(((0, 1, 2, 3), ()))
        gc.collect()
        assert len(gc.get_objects()) - before < 200


def test_the_arena_takes_what_a_store_needs_to_place_its_rows():
    store = hooked_store(layers=LAYERS, experts=EXPERTS)
    arena = DeviceArena(store, residents=((3,), ()), slots=2)
    assert torch.equal(arena.resident_row(0, 3), store.hidden.row(0, 3))
    assert arena.size_bytes == arena_bytes(store, residents=((3,), ()), slots=2) == (24 + 2 * 27) * 4
    assert arena.slot_row(1, 0, 2).data_ptr() - arena.slot_row(1, 0, 0).data_ptr() == 2 * 4
    assert arena.slot_row(0, 0, 3).isnan().all()


def test_close_ends_all_readers():
    before = set(threading.enumerate())
    with rig(depth=5) as r:
        assert len(set(threading.enumerate()) - before) == 6
        r.step(FILL)
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("wrong", [{"depth": 0}, {"compute_threads": 0}, {"drain_s": -1.0}])
def test_options_are_checked(wrong):
    with pytest.raises(ValueError, match=f"expected {next(iter(wrong))}"):
        DiskOptions(**wrong)
