"""What every backend must do: the same suite for all of them."""

import time

import pytest
import torch
from backend_rig import OPTIONS, Rig, rig

from prescope.formulation import TaskKind
from prescope.runtime import SlotState, backends, open_backend
from prescope.runtime.backends.cpu import CpuOptions
from prescope.runtime.backends.delays import Delay
from prescope.runtime.backends.sim import SimOptions
from prescope.runtime.program import OpKind


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
