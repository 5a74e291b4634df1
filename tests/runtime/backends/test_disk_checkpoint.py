"""Steps over a real checkpoint file: the right weights, and a clear error where the disk fails."""

import errno
import os

import pytest
import torch
from safetensors.torch import save_file

from prescope.formulation import CostModel, LinearTime, Link
from prescope.runtime import DeviceArena, ExecutionError, ProgramBuilder, Stepper, open_backend
from prescope.runtime.disk import DiskReadError, DiskStore, SystemCalls

EXPERTS, HIDDEN, INNER = 6, 64, 96
COSTS = CostModel(
    expert_bytes=(100,),
    link=Link(bytes_per_s=10**9),
    gpu=(LinearTime(fixed_ns=100),),
    cpu=(LinearTime(fixed_ns=100),),
    dense=(LinearTime(fixed_ns=100),),
)


class Faulty(SystemCalls):
    """The system's calls, with a fault while there is one."""

    fault = None

    def read(self, descriptor, buffers, offset_bytes):
        if self.fault == "error":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return 0 if self.fault == "short" else super().read(descriptor, buffers, offset_bytes)


@pytest.fixture
def weights():
    generator = torch.Generator().manual_seed(3)
    shapes = {"gate_proj": (INNER, HIDDEN), "up_proj": (INNER, HIDDEN), "down_proj": (HIDDEN, INNER)}
    return {
        f"model.layers.0.mlp.experts.{expert}.{part}.weight": torch.randn(shape, generator=generator)
        for expert in range(EXPERTS)
        for part, shape in shapes.items()
    }


@pytest.fixture
def rig(tmp_path, weights):
    save_file(weights, tmp_path / "model.safetensors")
    calls = Faulty()
    with DiskStore.open(tmp_path, calls=calls) as store:
        arena = DeviceArena(store, residents=((),), slots=3)
        backend = open_backend("disk", store, arena)
        builder = ProgramBuilder(
            costs=COSTS, experts=EXPERTS, slots=3, residents=((),), host_computes=False, carry=True
        )
        yield tmp_path / "model.safetensors", calls, Stepper(builder, backend)
        backend.close()


def step(stepper, gpu, copies=()):
    """One step; returns what every computation read, and the trace."""
    read = {}
    stepper.begin_step(batch_tokens=1)
    stepper.dense_begin(0)
    stepper.dense_end()
    work = {expert: lambda parts, expert=expert: read.update({expert: copied(parts)}) for expert in gpu}
    ticket = stepper.submit(
        0, gpu=[(expert, 1) for expert in gpu], copies=[(0, *copy) for copy in copies], work=work
    )
    stepper.wait(ticket)
    trace = stepper.end_step()
    return read, trace


def copied(parts):
    return {name: part.clone() for name, part in parts.items()}


def expect(read, weights, experts):
    assert set(read) == set(experts)
    for expert, parts in read.items():
        gate, up, down = (
            weights[f"model.layers.0.mlp.experts.{expert}.{part}.weight"]
            for part in ("gate_proj", "up_proj", "down_proj")
        )
        assert torch.equal(parts["gate_up_proj"], torch.cat((gate, up)))
        assert torch.equal(parts["down_proj"], down)


def test_steps_read_what_is_in_the_file_and_keep_it(rig, weights):
    _, _, stepper = rig
    read, trace = step(stepper, [0, 1, 2, 3], [(0, 0), (1, 1), (2, 2), (3, 0)])
    expect(read, weights, [0, 1, 2, 3])
    assert trace.row_bytes_moved >= 4 * 3 * INNER * HIDDEN * 4
    read, trace = step(stepper, [3, 1, 4], [(4, 2)])
    expect(read, weights, [1, 3, 4])
    assert trace.row_bytes_moved < 2 * 3 * INNER * HIDDEN * 4


@pytest.mark.parametrize("fault", ["error", "short"])
def test_a_fault_of_the_disk_is_named_and_the_next_step_is_right(rig, weights, fault):
    file, calls, stepper = rig
    step(stepper, [0], [(0, 0)])
    calls.fault = fault
    with pytest.raises(ExecutionError, match=file.name) as caught:
        step(stepper, [0, 5], [(5, 1)])
    assert isinstance(caught.value.__cause__, DiskReadError)
    stepper.reset()
    calls.fault = None
    read, _ = step(stepper, [0, 5], [(0, 0), (5, 1)])
    expect(read, weights, [0, 5])


def test_a_file_cut_short_while_it_is_served_is_named_and_once_restored_serves_again(rig, weights):
    file, _, stepper = rig
    whole = file.read_bytes()
    step(stepper, [0], [(0, 0)])
    os.truncate(file, len(whole) // 8)
    with pytest.raises(ExecutionError, match=file.name) as caught:
        step(stepper, [5, 4, 3], [(5, 1), (4, 2), (3, 0)])
    assert isinstance(caught.value.__cause__, DiskReadError)
    stepper.reset()
    file.write_bytes(whole)
    read, _ = step(stepper, [5, 4, 3], [(5, 1), (4, 2), (3, 0)])
    expect(read, weights, [3, 4, 5])
