"""What every backend must do: the same suite for all of them."""

import threading
import time
from contextlib import contextmanager

import pytest
import torch

from prescope.formulation import CostModel, LinearTime, Link, TaskKind
from prescope.runtime import (
    DeviceArena,
    ExecutionError,
    ProgramBuilder,
    SlotState,
    Stepper,
    backends,
    open_backend,
    synthetic_store,
)
from prescope.runtime.backends.cpu import CpuOptions
from prescope.runtime.backends.delays import Delay
from prescope.runtime.backends.disk import DiskOptions
from prescope.runtime.backends.sim import SimOptions
from prescope.runtime.program import OpKind

LAYERS, EXPERTS, SLOTS = 3, 6, 3
RESIDENTS = ((0,), (0,), (0,))
OPTIONS = {
    "sim": None,
    "cpu": CpuOptions(dilation=20.0, drain_s=0.5),
    "disk": DiskOptions(depth=2, stall_floor_s=5.0, drain_s=0.5),
}
COSTS = CostModel(
    expert_bytes=(1000,) * LAYERS,
    link=Link(bytes_per_s=10**9, latency_ns=9000),
    gpu=(LinearTime(fixed_ns=8000),),
    cpu=(LinearTime(fixed_ns=12_000),),
    dense=(LinearTime(fixed_ns=5000),),
)


class Rig:
    """A backend with weights, and a log of what every computation read."""

    def __init__(self, name, options=None):
        self.store = synthetic_store(layers=LAYERS, experts=EXPERTS)
        self.arena = DeviceArena(self.store, residents=RESIDENTS, slots=SLOTS)
        self.backend = open_backend(name, self.store, self.arena, options or OPTIONS[name])
        builder = ProgramBuilder(costs=COSTS, experts=EXPERTS, slots=SLOTS, residents=RESIDENTS)
        self.stepper = Stepper(builder, self.backend)
        self.read = {}

    def work(self, layer, experts, action=None):
        def reader(expert):
            def run(weights):
                if action is not None:
                    action(layer, expert)
                self.read[layer, expert] = {name: part.clone() for name, part in weights.items()}

            return run

        return {expert: reader(expert) for expert in experts}

    def layer(self, layer, action=None, before_wait=None):
        """One layer: expert 0 is resident, 1 and 2 are copied, 3 runs on the host, 4 comes for the next."""
        self.stepper.dense_begin(layer)
        self.stepper.dense_end()
        ahead = [] if layer == 0 else [2]
        now = [1] if ahead else [1, 2]
        copies = [(layer, expert, self.slot(layer, expert)) for expert in now]
        if layer + 1 < LAYERS:
            copies.append((layer + 1, 2, self.slot(layer + 1, 2)))
        ticket = self.stepper.submit(
            layer,
            gpu=[(0, 1), (1, 1), (2, 1)],
            cpu=[(3, 1)],
            copies=copies,
            work=self.work(layer, (0, 1, 2, 3), action),
        )
        if before_wait is not None:
            before_wait(layer)
        self.stepper.wait(ticket)

    @staticmethod
    def slot(layer, expert):
        return 0 if expert == 1 else 1 + layer % 2

    def step(self, action=None, before_wait=None):
        self.read.clear()
        self.stepper.begin_step(batch_tokens=1)
        for layer in range(LAYERS):
            self.layer(layer, action, before_wait)
        return self.stepper.end_step()

    def expect_true_weights(self, but=()):
        assert set(self.read) == {(layer, expert) for layer in range(LAYERS) for expert in (0, 1, 2, 3)}
        for (layer, expert), parts in self.read.items():
            wanted = self.store.views(layer, self.store.row(layer, expert))
            same = all(torch.equal(part, wanted[name]) for name, part in parts.items())
            assert same == ((layer, expert) not in but), (layer, expert)


@contextmanager
def rig(name, options=None):
    made = Rig(name, options)
    try:
        yield made
    finally:
        made.backend.close()


@pytest.fixture(params=backends())
def name(request):
    return request.param


def test_every_expert_gets_its_own_weights_and_the_host_keeps_its(name):
    with rig(name) as r:
        before = r.store.checksum()
        for _ in range(3):
            trace = r.step()
            r.expect_true_weights()
            assert trace.backend == name
            assert trace.bytes_moved == 6 * 1000
            assert trace.row_bytes_moved == 6 * r.store.row_bytes(0)
            kinds = [task.kind for task in trace.schedule.tasks]
            assert [kinds.count(kind) for kind in TaskKind] == [3, 6, 12, 0]
            assert trace.degraded == ()
        assert r.store.checksum() == before


def test_the_same_operations_on_every_backend():
    seen = {}
    for name in backends():
        with rig(name) as r:
            trace = r.step()
            seen[name] = {(t.kind, t.lane, t.layer, t.expert, t.slot) for t in trace.schedule.tasks}
            assert len(seen[name]) == len(trace.schedule.tasks)
    assert all(tasks == seen["sim"] for tasks in seen.values())


def test_a_slot_altered_after_its_copy_is_seen_by_exactly_its_expert(name):
    # The copy of layer 1's expert 2 goes to slot 2 during layer 0; at the gate of layer 1 it has landed.
    def alter(layer):
        if layer == 1:
            deadline = time.monotonic() + 10
            while r.backend.slots.holds(2) != (1, 2) or r.backend.slots.state(2) is SlotState.LOADING:
                assert time.monotonic() < deadline
                time.sleep(0.001)
            r.arena.slot_row(2, 1, 2)[3] = 99.0

    slow = Delay(kind=OpKind.COMPUTE, layer=1, expert=0, extra_ns=10**6)
    options = {
        "sim": SimOptions(delays=(slow,)),
        "cpu": CpuOptions(dilation=50.0, delays=(slow,)),
    }
    with rig(name, options.get(name)) as r:
        r.step(before_wait=alter)
        r.expect_true_weights(but={(1, 2)})
        r.step()
        r.expect_true_weights()


def test_an_altered_host_row_is_not_seen_by_a_resident(name):
    with rig(name) as r:
        r.store.rows[1][0].fill_(700.0)
        r.store.rows[1][3].fill_(700.0)
        r.step()
        assert r.read[1, 0]["gate"][0] != 700.0
        assert r.read[1, 3]["gate"][0] == 700.0


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


def test_work_runs_in_the_callers_inference_mode(name):
    modes = []
    with rig(name) as r:
        r.step(lambda layer, expert: modes.append(torch.is_inference_mode_enabled()))
        with torch.inference_mode():
            r.step(lambda layer, expert: modes.append(torch.is_inference_mode_enabled()))
    assert modes == [False] * 12 + [True] * 12


def test_unknown_names_and_options_are_refused():
    r = Rig("sim")
    with pytest.raises(ValueError, match="sim, cpu, disk, got 'cuda'"):
        open_backend("cuda", r.store, r.arena)
    with pytest.raises(ValueError, match="expected CpuOptions for backend 'cpu', got NoneType"):
        open_backend("cpu", r.store, r.arena)
    with pytest.raises(ValueError, match="expected SimOptions"):
        open_backend("sim", r.store, r.arena, OPTIONS["cpu"])
    with pytest.raises(ValueError, match="expected DiskOptions"):
        open_backend("disk", r.store, r.arena, OPTIONS["cpu"])
    with pytest.raises(ValueError, match="experts in host memory for backend 'sim', got object: use 'disk'"):
        open_backend("sim", object(), r.arena)
