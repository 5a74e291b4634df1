"""Where an engine's weights lie and what carries its steps out."""

from __future__ import annotations

from collections.abc import Sequence

from prescope.formulation import CostModel, Instance
from prescope.runtime.arena import DeviceArena
from prescope.runtime.backends import Backend, open_backend
from prescope.runtime.builder import ProgramBuilder
from prescope.runtime.execution import execute
from prescope.runtime.program import Program
from prescope.runtime.stepper import Stepper
from prescope.runtime.store import HostStore
from prescope.runtime.synthetic import synthetic_store


class Serving:
    """Host store, arena, program builder and backend of one engine; close it in the end.

    Parameters
    ----------
    store
        The experts in host memory.
    costs
        Modelled durations.
    residents, slots, host_computes
        As for `prescope.formulation.Instance`.
    budget_bytes
        Device memory for experts.
    backend, options
        As for `open_backend`.
    """

    def __init__(
        self,
        *,
        store: HostStore,
        costs: CostModel,
        residents: Sequence[Sequence[int]],
        slots: int,
        host_computes: bool,
        budget_bytes: int,
        backend: str,
        options: object = None,
    ) -> None:
        self.store = store
        self.arena = DeviceArena(store, residents=residents, slots=slots, budget_bytes=budget_bytes)
        self.name = backend
        self.real_time = backend != "sim"
        builder = ProgramBuilder(
            costs=costs,
            experts=store.experts,
            slots=slots,
            residents=residents,
            host_computes=host_computes,
        )
        # The simulator beside a real-time backend times the same programs on weights of its own.
        self._shadow: Backend | None = None
        if self.real_time:
            small = synthetic_store(layers=store.layers, experts=store.experts, elements=3)
            self._shadow = open_backend("sim", small, DeviceArena(small, residents=residents, slots=slots))
        self.backend = open_backend(backend, store, self.arena, options)
        self.stepper = Stepper(builder, self.backend)
        self._dilation = float(getattr(options, "dilation", 1.0))

    @property
    def dilation(self) -> float:
        """Real time per modelled time; 1 in virtual time."""
        return self._dilation

    def simulate(self, instance: Instance, program: Program) -> int:
        """Simulated duration in nanoseconds of a program that a real-time backend has run."""
        assert self._shadow is not None
        return execute(self._shadow, program, link_busy_ns=instance.link_ready_ns).makespan_ns

    def close(self) -> None:
        """Close the backends; may be called more than once."""
        self.backend.close()
        if self._shadow is not None:
            self._shadow.close()
