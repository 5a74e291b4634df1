"""What every backend offers: it carries out the operations it is given, and says what happened."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from prescope.runtime.program import Op
from prescope.runtime.slots import SlotTable
from prescope.runtime.trace import StepTrace

if TYPE_CHECKING:
    from torch import Tensor

Work = Callable[[Mapping[str, "Tensor"]], None]
"""Computes one expert from its weights by part name; keeps its result itself, and never the weights."""


@dataclass(frozen=True, slots=True, eq=False)
class Ticket:
    """What `Backend.submit` hands out, to be waited for once.

    Parameters
    ----------
    step
        Number of the step, counted by the backend.
    wave
        Gate of the operations.
    computes
        Ids of its computations.
    """

    step: int
    wave: int
    computes: tuple[int, ...]


class Backend(Protocol):
    """Executes one step after another; all calls come from one thread, the caller's."""

    @property
    def name(self) -> str:
        """Its name in the registry."""

    @property
    def slots(self) -> SlotTable:
        """What it believes of the slots, and of other rows by their numbers."""

    def begin_step(self, ops: Sequence[Op], *, link_busy_ns: int = 0) -> None:
        """Start a step with its fork and first copies.

        Parameters
        ----------
        ops
            As `ProgramBuilder.begin_step` gives them.
        link_busy_ns
            None of the step's copies starts before that time. Those carried over from the step before keep
            the link busy anyway, whether they are counted here or not.
        """

    def dense_begin(self, op: Op) -> None:
        """The caller starts a layer's dense work; blocks until its waits are over."""

    def dense_end(self, op: Op) -> None:
        """The caller has done that work; blocks until it also has the modelled length."""

    def submit(
        self,
        ops: Sequence[Op],
        work: Mapping[int, Work] | None = None,
        predict: Callable[[], None] | None = None,
    ) -> Ticket:
        """Issue the operations of one gate and return at once.

        Parameters
        ----------
        ops
            As `ProgramBuilder.wave` gives them.
        work
            What each expert computes, by expert. Without it every computation reads its weights and checks
            that they are exactly those of its layer and expert in the host store.
        predict
            What the gate's prediction does, if there is one; without it the host only takes the time.
        """

    def wait(self, ticket: Ticket, timeout_s: float | None = None) -> None:
        """Block until the layer is computed; copies for later layers go on.

        Raises
        ------
        ExecutionError
            When an operation failed, with its cause.
        StallError
            When the layer is not done in time. ``None`` allows a generous multiple of the modelled time.
        """

    def end_step(self, op: Op) -> StepTrace:
        """End the step with its join; copies that nobody waits for go on."""

    def now_ns(self) -> int:
        """Modelled time since the step began."""

    def outcomes(self) -> dict[str, int]:
        """How many operations of the present or last step are queued, running, done, failed or cancelled.

        Once a step has ended or was reset none is queued or running, but for copies carried over.
        """

    def cancel(self) -> None:
        """Give up everything that has not ended; the step cannot be continued."""

    def reset(self) -> None:
        """After a failure or `cancel`: drain, believe nothing about any slot, and be ready again.

        Where residents exchange rows with slots, their rows are slots in this sense: see
        `prescope.runtime.recovery`.
        """

    def close(self) -> None:
        """Release everything; may be called from any state and more than once."""
