"""Virtual time that really executes: the finder of ordering bugs, and the clock of every comparison."""

from __future__ import annotations

from prescope.runtime.backends.sim.backend import SimBackend
from prescope.runtime.backends.sim.options import SimOptions

__all__ = ["SimBackend", "SimOptions"]
