"""Reads from the disk into slots, and computes from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from prescope.runtime.arena import DeviceArena
from prescope.runtime.backends._node import Node
from prescope.runtime.backends._payload import compute
from prescope.runtime.backends.disk.options import DiskOptions
from prescope.runtime.backends.threads import Board
from prescope.runtime.backends.threads.clock import now_ns
from prescope.runtime.errors import OrderError
from prescope.runtime.program import Stream
from prescope.runtime.store import ExpertStore


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskCrew:
    """The crew in real time; see `Crew`."""

    board: Board
    store: ExpertStore
    arena: DeviceArena
    options: DiskOptions
    dilation: float = 1.0

    def held_ns(self, node: Node) -> int:
        """Nothing is held."""
        return 0

    def enter(self, stream: Stream) -> Callable[[Node], None]:
        """See `Crew.enter`."""
        if stream is Stream.LINK:
            return self._read
        return self._compute if stream is Stream.CPU else self._compute_on_the_callers_thread

    def _read(self, node: Node) -> None:
        op = node.op
        if op.place is None or op.expert is None:
            raise OrderError(f"expected a slot and an expert, got {op.describe()}")
        row = self.arena.slot_row(op.place, op.layer, op.expert)
        self.board.begin(node, now_ns())
        node.moved_bytes = self.store.read(op.layer, op.expert, row)

    def _compute(self, node: Node) -> None:
        self.board.begin(node, now_ns())
        compute(self.store, self.arena, node)

    def _compute_on_the_callers_thread(self, node: Node) -> None:
        import torch

        with torch.no_grad():
            self._compute(node)
