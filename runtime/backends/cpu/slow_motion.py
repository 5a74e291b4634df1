"""Slow motion: really copies or computes, then holds until the dilated time is over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from prescope.runtime.arena import DeviceArena
from prescope.runtime.backends._node import Node
from prescope.runtime.backends._payload import compute
from prescope.runtime.backends.cpu.options import CpuOptions
from prescope.runtime.backends.delays import extra_ns
from prescope.runtime.backends.threads.board import Board
from prescope.runtime.backends.threads.clock import hold_until, now_ns, set_timer_slack
from prescope.runtime.errors import OrderError
from prescope.runtime.program import OpKind, Stream
from prescope.runtime.store import HostStore

# Below this a piece of a copy cannot be paced.
_SHORTEST_CHUNK_NS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowMotion:
    """The crew of the emulated accelerator; see `Crew`."""

    board: Board
    store: HostStore
    arena: DeviceArena
    options: CpuOptions

    @property
    def dilation(self) -> float:
        """Real time per modelled time."""
        return self.options.dilation

    def held_ns(self, node: Node) -> int:
        """Real time that an operation takes at least."""
        modelled = node.op.predicted_ns + extra_ns(self.options.delays, node.op, node.step)
        return round(modelled * self.options.dilation)

    def enter(self, stream: Stream) -> Callable[[Node], None]:
        """See `Crew.enter`."""
        set_timer_slack(1)
        actual_end = nominal_end = 0

        def carry_out(node: Node) -> None:
            nonlocal actual_end, nominal_end
            try:
                nominal_end = _carry_out(self, node, _start_ns(node, actual_end, nominal_end))
            finally:
                actual_end = now_ns()

        return carry_out


def _start_ns(node: Node, actual_end: int, nominal_end: int) -> int:
    """When an operation starts.

    An operation that was ready when the one before it ended starts at that one's end without the late
    waking from its hold: a group of ready operations keeps cumulative deadlines. A late end of real work is
    never forgiven. Any other operation starts now.
    """
    ready_ns = max((node.submitted_ns, *(wait.end_ns for wait in node.waits)))
    return nominal_end if 0 < ready_ns <= nominal_end <= actual_end else now_ns()


def _carry_out(crew: SlowMotion, node: Node, start_ns: int) -> int:
    """Do the real work and hold; returns when the operation ended but for late waking."""
    aborted = crew.board.aborted
    if node.not_before_ns > start_ns:
        start_ns = node.not_before_ns
        hold_until(start_ns, aborted)
    crew.board.begin(node, now_ns())
    deadline_ns = start_ns + crew.held_ns(node)
    if node.op.kind is OpKind.COPY:
        _copy(crew, node, start_ns, deadline_ns)
    else:
        compute(crew.store, crew.arena, node)
    worked_ns = now_ns()
    node.overran = worked_ns > deadline_ns
    hold_until(deadline_ns, aborted)
    return max(worked_ns, deadline_ns)


def _copy(crew: SlowMotion, node: Node, start_ns: int, deadline_ns: int) -> None:
    op = node.op
    if op.place is None or op.expert is None:
        raise OrderError(f"expected a slot and an expert, got {op.describe()}")
    source = crew.store.row(op.layer, op.expert)
    target = crew.arena.slot_row(op.place, op.layer, op.expert)
    length_ns = deadline_ns - start_ns
    chunks = max(1, min(crew.options.chunks, length_ns // _SHORTEST_CHUNK_NS))
    for chunk in range(chunks):
        # Absolute deadlines: what one piece loses the next one does not.
        if not hold_until(start_ns + length_ns * chunk // chunks, crew.board.aborted):
            return
        begin = source.numel() * chunk // chunks
        end = source.numel() * (chunk + 1) // chunks
        target[begin:end].copy_(source[begin:end])
