"""The backend over a disk: its lanes and its complete waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from prescope.runtime.arena import DeviceArena
from prescope.runtime.backends._node import Node
from prescope.runtime.backends.base import Work
from prescope.runtime.backends.disk.crew import DiskCrew
from prescope.runtime.backends.disk.dataflow import Dataflow
from prescope.runtime.backends.disk.options import DiskOptions
from prescope.runtime.backends.threads import Board, Lane, ThreadedBackend
from prescope.runtime.program import Op, Stream
from prescope.runtime.store import ExpertStore


class DiskBackend(ThreadedBackend):
    """Several reads in flight, started in link order; computations on the caller's thread while it waits.

    A copy is done when its own read is. Whichever expert of a layer has landed is computed first. Two copies
    to one slot never overlap, and none overtakes a reader. Times are real; ``link_busy_ns`` is not used, as a
    disk is busy when it is.

    Parameters
    ----------
    store, arena
        Where experts are read from and to.
    options
        Reads in flight and patience.
    """

    def __init__(self, store: ExpertStore, arena: DeviceArena, options: DiskOptions | None = None) -> None:
        options = options or DiskOptions()
        lanes = {
            Stream.LINK: Lane(workers=options.depth),
            # On the caller's thread: it has nothing else to do, and a second pool of compute threads would
            # take the cores from the first one.
            Stream.GPU: Lane(workers=0, overtaking=True),
            Stream.CPU: Lane(),
        }
        self._dataflow = Dataflow()
        super().__init__(
            "disk",
            DiskCrew(board=Board(arena.slots, lanes), store=store, arena=arena, options=options),
            paced=False,
            stall_floor_s=options.stall_floor_s,
            drain_s=options.drain_s,
        )

    def _add(self, ops: Sequence[Op], work: Mapping[int, Work] | None) -> list[Node]:
        nodes = super()._add(ops, work)
        for node in nodes:
            self._dataflow.enter(node)
        return nodes
