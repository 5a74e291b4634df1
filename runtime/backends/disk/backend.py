"""The backend over a disk: its lanes and its complete waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

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
        self._compute_threads = options.compute_threads
        self._threads_before: int | None = None
        super().__init__(
            "disk",
            DiskCrew(board=Board(arena.slots, lanes), store=store, arena=arena, options=options),
            paced=False,
            stall_floor_s=options.stall_floor_s,
            drain_s=options.drain_s,
        )

    def begin_step(self, ops: Sequence[Op], *, link_busy_ns: int = 0) -> None:
        """See `Backend.begin_step`."""
        self._set_threads()
        super().begin_step(ops, link_busy_ns=link_busy_ns)

    def close(self) -> None:
        """See `Backend.close`."""
        super().close()
        if self._threads_before is not None:
            import torch

            torch.set_num_threads(self._threads_before)
            self._threads_before = None

    def _set_threads(self) -> None:
        import torch

        wanted = self._compute_threads
        # Not around every computation: each change makes torch forget the kernels it has prepared.
        if wanted is not None and torch.get_num_threads() != wanted:
            if self._threads_before is None:
                self._threads_before = torch.get_num_threads()
            torch.set_num_threads(wanted)

    def _add(
        self,
        ops: Sequence[Op],
        work: Mapping[int, Work] | None,
        predict: Callable[[], None] | None = None,
    ) -> list[Node]:
        nodes = super()._add(ops, work, predict)
        for node in nodes:
            self._dataflow.enter(node)
        return nodes
