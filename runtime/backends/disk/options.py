"""Settings of the backend over a disk."""

from __future__ import annotations

from dataclasses import dataclass

from prescope.formulation.checks import require_finite, require_int


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskOptions:
    """How many reads at once, and how patient.

    Parameters
    ----------
    depth
        Most reads in flight, each in a thread of its own.
    compute_threads
        Threads of torch on the caller's thread from the first step until `close`, the caller's dense work
        included. ``None`` leaves its setting alone: with another number of threads some products differ in
        their last bits. One fewer than there are cores is faster where other programs use the cores too.
    stall_floor_s
        Least time that a wait allows on top of four times the modelled time.
    drain_s
        How long `reset` and `close` wait for reads in flight before they leave their threads behind.
    """

    depth: int = 4
    compute_threads: int | None = None
    stall_floor_s: float = 30.0
    drain_s: float = 5.0

    def __post_init__(self) -> None:
        require_int("depth", self.depth, 1)
        if self.compute_threads is not None:
            require_int("compute_threads", self.compute_threads, 1)
        require_finite("stall_floor_s", self.stall_floor_s, 0.0)
        require_finite("drain_s", self.drain_s, 0.0)
