"""Reads that fail or hang and interrupts: what is said, and that the next step is right."""

import threading
import time

import pytest
from disk_rig import FILL, PATIENT_S, rig

from prescope.runtime import ExecutionError, SlotState, StallError


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
