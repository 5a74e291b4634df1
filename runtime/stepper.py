"""Builder and backend as one: decisions go in gate by gate, the executed step comes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from prescope.runtime.arena import DeviceArena
from prescope.runtime.backends.base import Backend, Ticket, Work
from prescope.runtime.builder import ProgramBuilder
from prescope.runtime.program import Op, Program
from prescope.runtime.recovery import recover
from prescope.runtime.trace import StepTrace


class Stepper:
    """Runs steps: every decision becomes checked operations, which the backend carries out.

    Per step: ``begin_step``; for every layer ``dense_begin``, the caller's dense work, ``dense_end``,
    ``submit`` and ``wait``; then ``end_step``, and ``settle`` once nothing can go wrong with it any more.
    After any error call ``reset`` before the next step.

    Parameters
    ----------
    builder
        Makes and checks the operations.
    backend
        Carries them out; it stays the caller's to close.
    """

    def __init__(self, builder: ProgramBuilder, backend: Backend) -> None:
        self._builder = builder
        self._backend = backend
        self._dense: Op | None = None

    def begin_step(
        self,
        copies: Sequence[tuple[int, int, int]] = (),
        *,
        batch_tokens: int,
        link_busy_ns: int = 0,
    ) -> None:
        """Start a step with ``(layer, expert, slot)`` of the copies that wait for no gate."""
        ops = self._builder.begin_step(copies, batch_tokens=batch_tokens)
        self._backend.begin_step(ops, link_busy_ns=link_busy_ns)

    def dense_begin(self, layer: int) -> None:
        """The caller starts the dense work of a layer."""
        self._dense = self._builder.dense(layer)
        self._backend.dense_begin(self._dense)

    def dense_end(self) -> None:
        """The caller has done it: this is the gate."""
        if self._dense is None:
            raise RuntimeError("expected dense_begin before dense_end, got none")
        self._backend.dense_end(self._dense)

    def submit(
        self,
        layer: int,
        *,
        gpu: Sequence[tuple[int, int]] = (),
        cpu: Sequence[tuple[int, int]] = (),
        copies: Sequence[tuple[int, int, int]] = (),
        exchanges: Sequence[tuple[int, int]] = (),
        work: Mapping[int, Work] | None = None,
        prediction_ns: int = 0,
        predict: Callable[[], None] | None = None,
    ) -> Ticket:
        """Issue the decisions of a gate: see `ProgramBuilder.wave` and `Backend.submit`."""
        ops = self._builder.wave(
            layer, gpu=gpu, cpu=cpu, copies=copies, exchanges=exchanges, prediction_ns=prediction_ns
        )
        return self._backend.submit(ops, work, predict)

    def lasting(self, layer: int, copies: Sequence[tuple[int, int, int]]) -> frozenset[int]:
        """Who keeps its slot through the copies of a gate; see `ProgramBuilder.lasting`."""
        return self._builder.lasting(layer, copies)

    def wait(self, ticket: Ticket, timeout_s: float | None = None) -> None:
        """Block until the layer is computed."""
        self._backend.wait(ticket, timeout_s)

    def end_step(self) -> StepTrace:
        """End the step."""
        return self._backend.end_step(self._builder.end_step())

    def settle(self) -> None:
        """Nothing can fail any more in the step that was ended; see `ProgramBuilder.settle`."""
        self._builder.settle()

    def now_ns(self) -> int:
        """Modelled time since the step began."""
        return self._backend.now_ns()

    def program(self) -> Program:
        """The program of the step that ended last."""
        return self._builder.program()

    def contents(self) -> dict[int, tuple[int, int]]:
        """``(layer, expert)`` by slot; see `ProgramBuilder.contents`."""
        return self._builder.contents()

    def residents(self) -> tuple[tuple[int, ...], ...]:
        """Who is resident when the next step begins, per layer; see `ProgramBuilder.residents`."""
        return self._builder.residents()

    def reset(self, arenas: Sequence[tuple[Backend, DeviceArena]] = ()) -> None:
        """After an error: the next step starts from nothing but the residents of the one that failed.

        Parameters
        ----------
        arenas
            Where residents exchange rows: everyone who runs the programs, with the memory they run in. What
            the step overwrote is read again.
        """
        self._builder.abort_step()
        self._backend.reset()
        if arenas:
            recover(self._builder, arenas)
