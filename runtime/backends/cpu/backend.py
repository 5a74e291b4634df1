"""The emulated accelerator."""

from __future__ import annotations

from prescope.runtime.arena import DeviceArena
from prescope.runtime.backends.cpu.options import CpuOptions
from prescope.runtime.backends.cpu.slow_motion import SlowMotion
from prescope.runtime.backends.threads import Board, Lane, ThreadedBackend
from prescope.runtime.program import Stream
from prescope.runtime.store import HostStore


class CpuBackend(ThreadedBackend):
    """Ordered worker threads in slow motion: one for the link, one for the device, one for the host.

    Every operation really copies or really computes and is then held, from its own actual start, until the
    dilation times its modelled duration has passed. Reported times are real times divided by the dilation.

    Parameters
    ----------
    store, arena
        Host and device weights.
    options
        Dilation and patience.
    """

    def __init__(self, store: HostStore, arena: DeviceArena, options: CpuOptions) -> None:
        lanes = {stream: Lane() for stream in (Stream.LINK, Stream.GPU, Stream.CPU)}
        board = Board(arena.rows, lanes, arena.contents)
        super().__init__(
            "cpu",
            SlowMotion(board=board, store=store, arena=arena, options=options),
            paced=True,
            stall_floor_s=options.stall_floor_s,
            drain_s=options.drain_s,
        )
