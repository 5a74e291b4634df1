"""One thread per stream: really copies or computes, then holds until the dilated time is over."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from prescope.runtime.arena import DeviceArena
from prescope.runtime.backends._node import Node
from prescope.runtime.backends._payload import run_payload
from prescope.runtime.backends.cpu.board import Board
from prescope.runtime.backends.cpu.clock import hold_until, now_ns, set_timer_slack
from prescope.runtime.backends.cpu.options import CpuOptions
from prescope.runtime.backends.delays import extra_ns
from prescope.runtime.errors import OrderError
from prescope.runtime.program import OpKind, Stream
from prescope.runtime.store import HostStore

# Below this a piece of a copy cannot be paced.
_SHORTEST_CHUNK_NS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What a worker needs; deliberately not the backend, so that a forgotten one can be collected."""

    board: Board
    store: HostStore
    arena: DeviceArena
    options: CpuOptions

    def held_ns(self, node: Node) -> int:
        """Real time that an operation takes at least."""
        modelled = node.op.predicted_ns + extra_ns(self.options.delays, node.op, node.step)
        return round(modelled * self.options.dilation)


def start_worker(machine: Machine, stream: Stream) -> threading.Thread:
    """Start the thread of a stream; returns once it is set up."""
    ready = threading.Event()
    epoch = machine.board.epoch(stream)
    thread = threading.Thread(
        target=_run, args=(machine, stream, epoch, ready), name=f"prescope-{stream}", daemon=True
    )
    thread.start()
    ready.wait()
    return thread


def _run(machine: Machine, stream: Stream, epoch: int, ready: threading.Event) -> None:
    import torch

    set_timer_slack(1)
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    ready.set()
    board = machine.board
    actual_end = nominal_end = 0
    while (node := board.take(stream, epoch)) is not None:
        try:
            base = _start_ns(node, actual_end, nominal_end)
            nominal_end = _carry_out(machine, node, base)
        except BaseException as error:  # it is raised again where the caller waits
            board.fail(node, error, epoch)
        else:
            board.finish(node, epoch)
        actual_end = node.end_ns


def _start_ns(node: Node, actual_end: int, nominal_end: int) -> int:
    """When an operation starts.

    An operation that was ready when the one before it ended starts at that one's end without the late
    waking from its hold: a group of ready operations keeps cumulative deadlines. A late end of real work is
    never forgiven. Any other operation starts now.
    """
    ready_ns = max((node.submitted_ns, *(wait.end_ns for wait in node.waits)))
    return nominal_end if 0 < ready_ns <= nominal_end <= actual_end else now_ns()


def _carry_out(machine: Machine, node: Node, start_ns: int) -> int:
    """Do the real work and hold; returns when the operation ended but for late waking."""
    aborted = machine.board.aborted
    if node.not_before_ns > start_ns:
        start_ns = node.not_before_ns
        hold_until(start_ns, aborted)
    machine.board.begin(node, now_ns())
    deadline_ns = start_ns + machine.held_ns(node)
    if node.op.kind is OpKind.COPY:
        _copy(machine, node, start_ns, deadline_ns)
    else:
        _compute(machine, node)
    worked_ns = now_ns()
    node.overran = worked_ns > deadline_ns
    hold_until(deadline_ns, aborted)
    return max(worked_ns, deadline_ns)


def _copy(machine: Machine, node: Node, start_ns: int, deadline_ns: int) -> None:
    op = node.op
    if op.slot is None or op.expert is None:
        raise OrderError(f"expected a slot and an expert, got {op.describe()}")
    source = machine.store.row(op.layer, op.expert)
    target = machine.arena.slot_row(op.slot, op.layer)
    length_ns = deadline_ns - start_ns
    chunks = max(1, min(machine.options.chunks, length_ns // _SHORTEST_CHUNK_NS))
    for chunk in range(chunks):
        # Absolute deadlines: what one piece loses the next one does not.
        if not hold_until(start_ns + length_ns * chunk // chunks, machine.board.aborted):
            return
        begin = source.numel() * chunk // chunks
        end = source.numel() * (chunk + 1) // chunks
        target[begin:end].copy_(source[begin:end])


def _compute(machine: Machine, node: Node) -> None:
    op = node.op
    if op.expert is None:
        raise OrderError(f"expected an expert, got {op.describe()}")
    if op.stream is Stream.CPU:
        row = machine.store.row(op.layer, op.expert)
    else:
        row = machine.arena.device_row(op.layer, op.expert, op.slot)
    run_payload(machine.store, op, row, node.work)
