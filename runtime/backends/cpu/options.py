"""Settings of the emulated accelerator."""

from __future__ import annotations

from dataclasses import dataclass

from prescope.formulation.checks import require_finite, require_int
from prescope.runtime.backends.delays import Delay


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuOptions:
    """How slow the slow motion is, and how patient.

    Parameters
    ----------
    dilation
        Real time per modelled time; see `calibrate`.
    chunks
        Most pieces in which a copy is made.
    delays
        Operations made longer.
    stall_floor_s
        Least real time that a wait allows on top of four times the modelled time.
    drain_s
        How long `reset` and `close` wait for running operations before they leave their threads behind.
    """

    dilation: float
    chunks: int = 4
    delays: tuple[Delay, ...] = ()
    stall_floor_s: float = 2.0
    drain_s: float = 1.0

    def __post_init__(self) -> None:
        require_finite("dilation", self.dilation, 1e-9)
        require_int("chunks", self.chunks, 1)
        require_finite("stall_floor_s", self.stall_floor_s, 0.0)
        require_finite("drain_s", self.drain_s, 0.0)
