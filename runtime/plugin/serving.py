"""Where an engine's weights lie and what carries its steps out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from prescope.formulation import Instance
from prescope.runtime.arena import DeviceArena
from prescope.runtime.backends import Backend
from prescope.runtime.execution import execute
from prescope.runtime.program import Program
from prescope.runtime.stepper import Stepper
from prescope.runtime.trace import StepTrace


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Serving:
    """Store, arena and backend of one engine; close it in the end.

    Parameters
    ----------
    store
        The experts at rest: a `HostStore`, or a `prescope.runtime.disk.DiskStore`.
    arena
        Their places on the device.
    backend
        Carries the steps out.
    stepper
        Builder and backend as one.
    dilation
        Real time per modelled time; 1 unless slow motion is emulated.
    shadow
        Simulates, beside an emulated run, the same programs in virtual time.
    shadow_arena
        The memory that it does it in.
    exchange
        Whether residents and slots exchange rows.
    """

    store: Any
    arena: DeviceArena
    backend: Backend
    stepper: Stepper
    dilation: float = 1.0
    shadow: Backend | None = None
    shadow_arena: DeviceArena | None = None
    exchange: bool = False

    def times(self, instance: Instance, program: Program, trace: StepTrace) -> tuple[int | None, int | None]:
        """Simulated and executed duration of a step in nanoseconds, ``None`` for what did not happen."""
        if self.backend.name == "sim":
            return trace.makespan_ns, None
        if self.shadow is None:
            return None, trace.makespan_ns
        simulated = execute(self.shadow, program, link_busy_ns=instance.link_ready_ns)
        return simulated.makespan_ns, trace.makespan_ns

    def reset(self) -> None:
        """After a failed step: be ready for the next one, with the residents of the one that failed."""
        machines = [(self.backend, self.arena)]
        if self.shadow is not None and self.shadow_arena is not None:
            machines.append((self.shadow, self.shadow_arena))
        self.stepper.reset(machines if self.exchange else ())

    def close(self) -> None:
        """Close the backends; may be called more than once."""
        self.backend.close()
        if self.shadow is not None:
            self.shadow.close()
