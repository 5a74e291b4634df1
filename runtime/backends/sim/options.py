"""Settings of the simulated backend."""

from __future__ import annotations

from dataclasses import dataclass

from prescope.formulation.checks import require_finite, require_int
from prescope.runtime.backends.delays import Delay
from prescope.runtime.program import Stream


@dataclass(frozen=True, slots=True, kw_only=True)
class SimOptions:
    """How the simulated machine differs from the modelled one.

    Parameters
    ----------
    chunks
        Pieces in which a copy lands.
    speeds
        Factors on the durations of streams; those not named keep 1. See `swarm_speeds`.
    delays
        Operations made longer.
    """

    chunks: int = 4
    speeds: tuple[tuple[Stream, float], ...] = ()
    delays: tuple[Delay, ...] = ()

    def __post_init__(self) -> None:
        require_int("chunks", self.chunks, 1)
        for stream, factor in self.speeds:
            require_finite(f"speed factor of {stream}", factor, 0.0)
