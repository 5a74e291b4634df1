"""Failures on every backend: the first error is the one raised, and the next step is right."""

import threading
import time

import pytest
from backend_rig import LAYERS, SLOTS, rig

from prescope.runtime import ExecutionError, SlotState, synthetic_store


@pytest.mark.parametrize(("layer", "expert"), [(0, 0), (1, 2), (2, 3)])
def test_a_failing_computation_ends_in_its_error_and_the_next_step_is_right(name, layer, expert):
    def fail(at, which):
        if (at, which) == (layer, expert):
            raise ValueError("broken kernel")

    with rig(name) as r:
        with pytest.raises(ExecutionError, match="broken kernel") as caught:
            r.step(fail)
        assert isinstance(caught.value.__cause__, ValueError)
        with pytest.raises(ExecutionError):
            r.stepper.end_step() if layer == LAYERS - 1 else r.layer(layer + 1)
        r.stepper.reset()
        assert {r.backend.slots.state(slot) for slot in range(SLOTS)} <= {
            SlotState.UNKNOWN,
            SlotState.FREE,
        }
        r.step()
        r.expect_true_weights()


def test_every_operation_reaches_one_final_state(name):
    def fail(layer, expert):
        if layer == 1 and expert == 1:
            raise ValueError("broken")

    with rig(name) as r:
        r.step()
        assert r.backend.outcomes() == {"done": 1 + 3 + 6 + 12 + 1}
        with pytest.raises(ExecutionError):
            r.step(fail)
        r.stepper.reset()
        outcomes = r.backend.outcomes()
        assert outcomes["failed"] == 1
        # The copy for layer 2 and the computations behind the failure; a disk need have none behind it.
        assert name == "disk" or outcomes["cancelled"] >= 1
        assert set(outcomes) <= {"done", "failed", "cancelled"}
        r.stepper.begin_step([(0, 1, 0)], batch_tokens=1)
        r.stepper.dense_begin(0)
        r.backend.close()
        assert set(r.backend.outcomes()) <= {"done", "cancelled"}


def test_the_first_error_wins(name):
    begun, ended = threading.Event(), threading.Event()

    def fail(layer, expert):
        if expert == 0:
            # In virtual time there is one thread and nothing to wait for.
            assert name == "sim" or begun.wait(10)
            raise ValueError("the first")
        if expert == 3:
            begun.set()
            time.sleep(0.05)
            ended.set()
            raise ValueError("the second")

    with rig(name) as r:
        with pytest.raises(ExecutionError, match="the first"):
            r.step(fail)
        assert name == "sim" or ended.wait(10)
        time.sleep(0.02)
        with pytest.raises(ExecutionError, match="the first"):
            r.backend.begin_step(())
        r.stepper.reset()
        r.step()
        r.expect_true_weights()


def test_a_failing_copy_ends_in_its_error_and_the_next_step_is_right(name):
    class Broken(type(synthetic_store(layers=1, experts=1))):
        failing = True

        def row(self, layer, expert):
            if self.failing and (layer, expert) == (1, 1):
                raise OSError("page not readable")
            return super().row(layer, expert)

    with rig(name) as r:
        r.store.__class__ = Broken
        with pytest.raises(ExecutionError, match="page not readable") as caught:
            r.step()
        assert isinstance(caught.value.__cause__, OSError)
        r.stepper.reset()
        r.store.failing = False
        r.step()
        r.expect_true_weights()


def test_a_cancelled_step_cannot_go_on_but_the_next_one_can(name):
    with rig(name) as r:
        r.stepper.begin_step([(0, 1, 0)], batch_tokens=1)
        r.backend.cancel()
        with pytest.raises(ExecutionError, match="cancelled"):
            r.stepper.dense_begin(0)
        r.stepper.reset()
        r.step()
        r.expect_true_weights()
