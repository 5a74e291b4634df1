"""What every backend does in which state: closing is always possible, other calls are not."""

import threading

import pytest
from backend_rig import Rig, rig

from prescope.runtime import ExecutionError


def open_only(r):
    return r


def step_begun(r):
    r.stepper.begin_step([(0, 1, 0)], batch_tokens=1)


def dense_begun(r):
    step_begun(r)
    r.stepper.dense_begin(0)


def wave_submitted(r):
    dense_begun(r)
    r.stepper.dense_end()
    r.stepper.submit(0, gpu=[(0, 1), (1, 1)], cpu=[(3, 1)], copies=[(1, 2, 1)])


def step_done(r):
    r.step()


def step_failed(r):
    def fail(layer, expert):
        raise ValueError("broken")

    with pytest.raises(ExecutionError):
        r.step(fail)


def step_reset(r):
    step_failed(r)
    r.stepper.reset()


def cancelled(r):
    wave_submitted(r)
    r.backend.cancel()


@pytest.mark.parametrize(
    "reach",
    [open_only, step_begun, dense_begun, wave_submitted, step_done, step_failed, step_reset, cancelled],
)
def test_close_from_any_state_leaves_no_thread(name, reach):
    before = set(threading.enumerate())
    r = Rig(name)
    reach(r)
    r.backend.close()
    r.backend.close()
    assert set(threading.enumerate()) <= before
    with pytest.raises(ExecutionError, match="closed"):
        r.backend.begin_step(())
    with pytest.raises(ExecutionError, match="closed"):
        r.backend.reset()


def test_calls_in_the_wrong_state_are_refused(name):
    with rig(name) as r:
        with pytest.raises(ExecutionError, match="begin_step first"):
            r.backend.submit(())
        r.stepper.begin_step(batch_tokens=1)
        with pytest.raises(ExecutionError, match="end_step or reset"):
            r.backend.begin_step(())
