"""The backend over a disk: its threads, its memory, and what is measured."""

import gc
import threading
import time
import weakref

import pytest
import torch
from disk_rig import EXPERTS, FILL, LAYERS, rig
from hooked_store import hooked_store

from prescope.formulation import TaskKind
from prescope.runtime import DeviceArena, arena_bytes
from prescope.runtime.backends.disk import DiskOptions


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
