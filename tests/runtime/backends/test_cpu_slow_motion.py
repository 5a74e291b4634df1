"""Slow motion: executed times follow from what really happened, not from what was planned."""

import statistics
import time
from itertools import pairwise

import pytest

from prescope.formulation import CostModel, Lane, LinearTime, Link, TaskKind
from prescope.runtime import DeviceArena, ProgramBuilder, Stepper, open_backend, synthetic_store
from prescope.runtime.backends.cpu import CpuOptions, slow_motion
from prescope.runtime.backends.delays import Delay
from prescope.runtime.backends.sim import SimOptions
from prescope.runtime.program import OpKind

LAYERS, EXPERTS = 3, 8
RESIDENTS = ((0, 4, 5, 6, 7),) * LAYERS
# With this dilation the shortest operation takes 4 ms.
DILATION = 4000.0
COSTS = CostModel(
    expert_bytes=(2500,) * LAYERS,
    link=Link(bytes_per_s=10**9),
    gpu=(LinearTime(fixed_ns=1500),),
    cpu=(LinearTime(fixed_ns=6000),),
    dense=(LinearTime(fixed_ns=1000),),
)
STRETCH_MS = 50
STRETCH_NS = round(STRETCH_MS * 10**6 / DILATION)
TOLERANCE = 0.05
# A busy machine wakes threads late; what is wrong is wrong every time.
ATTEMPTS = 8


def run(backend, options, stretched=None, link_busy_ns=0):
    """One step; the stretched computation really takes so much longer when the backend runs in real time."""
    store = synthetic_store(layers=LAYERS, experts=EXPERTS)
    arena = DeviceArena(store, residents=RESIDENTS, slots=3)
    opened = open_backend(backend, store, arena, options)
    builder = ProgramBuilder(costs=COSTS, experts=EXPERTS, slots=3, residents=RESIDENTS)
    stepper = Stepper(builder, opened)

    def sleep(_weights, lane_ns):
        time.sleep((lane_ns * DILATION + STRETCH_MS * 10**6) / 1e9)

    try:
        stepper.begin_step([(0, 1, 0), (0, 2, 1)], batch_tokens=1, link_busy_ns=link_busy_ns)
        for layer in range(LAYERS):
            work = {expert: lambda _weights: None for expert in range(EXPERTS)}
            if stretched is not None and stretched[0] == layer:
                lane_ns = COSTS.cpu_ns(layer, 1) if stretched[1] == 3 else COSTS.gpu_ns(layer, 1)
                work[stretched[1]] = lambda weights, lane_ns=lane_ns: sleep(weights, lane_ns)
            stepper.dense_begin(layer)
            stepper.dense_end()
            # The next layer's copies take over the slots of this layer's experts as they become free.
            copies = [(layer + 1, 1, 0), (layer + 1, 2, 1)] if layer + 1 < LAYERS else []
            ticket = stepper.submit(
                layer,
                gpu=[(expert, 1) for expert in (0, 4, 5, 6, 7, 1, 2)],
                cpu=[(3, 1)],
                copies=copies,
                work=work,
            )
            stepper.wait(ticket)
        return stepper.end_step()
    finally:
        opened.close()


def simulated(stretched=None):
    delays = ()
    if stretched is not None:
        delays = (Delay(kind=OpKind.COMPUTE, layer=stretched[0], expert=stretched[1], extra_ns=STRETCH_NS),)
    return run("sim", SimOptions(delays=delays)).makespan_ns


def executed(stretched=None):
    return run("cpu", CpuOptions(dilation=DILATION), stretched)


def agrees(stretched):
    wanted = simulated(stretched)
    return any(abs(executed(stretched).makespan_ns / wanted - 1) <= TOLERANCE for _ in range(ATTEMPTS))


@pytest.mark.parametrize("stretched", [None, (0, 0), (1, 5), (1, 2), (1, 3)])
def test_a_stretched_operation_moves_the_executed_makespan_as_simulated(stretched):
    shift = simulated(stretched) - simulated()
    assert shift == 0 if stretched is None else shift > 2 * TOLERANCE * simulated()
    assert agrees(stretched)


def test_deadlines_from_planned_starts_would_not_pass(monkeypatch):
    planned = {
        (task.layer, task.expert): task.start_ns
        for task in run("sim", None).schedule.tasks
        if task.kind is TaskKind.COMPUTE
    }
    origins = []

    def planned_start(node, actual_end, nominal_end):
        now = slow_motion.now_ns()
        origins.append(now)
        if node.op.kind is OpKind.COPY:
            return now
        return round(origins[0] + DILATION * planned[node.op.layer, node.op.expert])

    monkeypatch.setattr(slow_motion, "_start_ns", planned_start)
    wanted = simulated((0, 0))
    for _ in range(2):
        origins.clear()
        assert executed((0, 0)).makespan_ns < wanted * (1 - TOLERANCE)


def lasts_as_modelled(trace):
    """Whether no operation is much shorter: sleeping late is made up for by the ready operation after it."""
    for task in trace.schedule.tasks:
        modelled = {
            (TaskKind.DENSE, Lane.GPU): COSTS.dense_ns(0, 1),
            (TaskKind.COPY, Lane.LINK): COSTS.copy_ns(0),
            (TaskKind.COMPUTE, Lane.GPU): COSTS.gpu_ns(0, 1),
            (TaskKind.COMPUTE, Lane.CPU): COSTS.cpu_ns(0, 1),
        }[task.kind, task.lane]
        if (task.kind, task.layer, task.expert) == (TaskKind.COMPUTE, 1, 2):
            modelled += STRETCH_NS
        if task.duration_ns < 0.5 * modelled:
            return False
    return True


def test_every_operation_takes_at_least_its_dilated_time_and_overruns_are_counted():
    traces = (executed((1, 2)) for _ in range(ATTEMPTS))
    trace = next((trace for trace in traces if lasts_as_modelled(trace)), None)
    assert trace is not None
    for lane in Lane:
        tasks = trace.schedule.lane(lane)
        assert all(earlier.end_ns <= later.start_ns for earlier, later in pairwise(tasks))
    counts = {entry.kind: (entry.count, entry.total) for entry in trace.violations}
    assert {kind: total for kind, (_, total) in counts.items()} == {
        "dense": 3,
        "copy": 6,
        "gpu": 21,
        "cpu": 3,
    }
    assert counts["gpu"][0] >= 1
    assert trace.violation_share >= 1 / 33
    assert trace.refused
    assert trace.dilation == DILATION


def test_an_idle_backend_uses_no_processor_time():
    store = synthetic_store(layers=1, experts=2)
    arena = DeviceArena(store, residents=((0,),), slots=1)
    backend = open_backend("cpu", store, arena, CpuOptions(dilation=1.0))
    try:
        shares = []
        for _ in range(3):
            before, began = time.process_time(), time.monotonic()
            time.sleep(0.1)
            shares.append((time.process_time() - before) / (time.monotonic() - began))
        assert statistics.median(shares) < 0.2
    finally:
        backend.close()


def test_opening_a_backend_leaves_the_callers_thread_count_alone():
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    store = synthetic_store(layers=1, experts=2)
    backend = open_backend(
        "cpu", store, DeviceArena(store, residents=((0,),), slots=1), CpuOptions(dilation=1.0)
    )
    try:
        assert torch.get_num_threads() == 2
    finally:
        backend.close()
        torch.set_num_threads(before)


def test_no_copy_starts_before_the_link_is_free():
    for backend, options in (("sim", None), ("cpu", CpuOptions(dilation=DILATION))):
        trace = run(backend, options, link_busy_ns=4000)
        assert min(task.start_ns for task in trace.schedule.lane(Lane.LINK)) >= 4000
