"""The simulated backend: discrete events in virtual time, with real copies and computations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from prescope.runtime.arena import DeviceArena
from prescope.runtime.backends._node import Node, NodeState, StepNodes
from prescope.runtime.backends._payload import work_of
from prescope.runtime.backends._report import step_trace
from prescope.runtime.backends.base import Ticket, Work
from prescope.runtime.backends.delays import extra_ns
from prescope.runtime.backends.sim.effects import Effects
from prescope.runtime.backends.sim.machine import Machine
from prescope.runtime.backends.sim.options import SimOptions
from prescope.runtime.errors import ExecutionError, StallError
from prescope.runtime.program import Op, Program
from prescope.runtime.slots import SlotTable
from prescope.runtime.store import HostStore
from prescope.runtime.trace import StepTrace


class SimBackend:
    """Runs on the caller's thread; equal options and operations give equal traces.

    Parameters
    ----------
    store, arena
        Host and device weights.
    options
        How the machine differs from the modelled one.
    """

    name = "sim"

    def __init__(self, store: HostStore, arena: DeviceArena, options: SimOptions | None = None) -> None:
        self._store = store
        self._options = options or SimOptions()
        self._factors = dict(self._options.speeds)
        self._effects = Effects(store, arena, self._options.chunks)
        self._machine = Machine(self._duration_ns, self._started, self._effects.finished)
        self._steps: dict[int, StepNodes] = {}
        self._step: StepNodes | None = None
        self._last_step: StepNodes | None = None
        self._count = 0
        self._failure: ExecutionError | None = None
        self._closed = False

    @property
    def slots(self) -> SlotTable:
        """States of the slots."""
        return self._effects.slots

    def begin_step(self, ops: Sequence[Op], *, link_busy_ns: int = 0) -> None:
        """See `Backend.begin_step`."""
        self._require_usable()
        if self._step is not None:
            raise ExecutionError("expected end_step or reset before the next begin_step, got none")
        origin_ns = self._machine.now_ns
        self._step = StepNodes(self._count, origin_ns, origin_ns + link_busy_ns)
        self._steps = {self._count: self._step}
        self._count += 1
        fork = self._add(ops, None)[0]
        self._run(lambda: fork.state is NodeState.DONE, "the fork")

    def dense_begin(self, op: Op) -> None:
        """See `Backend.dense_begin`; virtual time passes until the waits are over."""
        node = self._add((op,), None)[0]
        self._run(lambda: node.state is not NodeState.QUEUED, op.describe())

    def dense_end(self, op: Op) -> None:
        """See `Backend.dense_end`; virtual time passes until the gate."""
        node = self._open_step().nodes[op.id]
        self._run(lambda: node.state is NodeState.DONE, op.describe())

    def submit(
        self,
        ops: Sequence[Op],
        work: Mapping[int, Work] | None = None,
        predict: Callable[[], None] | None = None,
    ) -> Ticket:
        """See `Backend.submit`."""
        wave = ops[0].wave if ops else -1
        return self._open_step().ticket(self._add(ops, work, predict), wave)

    def wait(self, ticket: Ticket, timeout_s: float | None = None) -> None:
        """See `Backend.wait`; the limit has no meaning in virtual time, a deadlock is found at once."""
        step = self._open_step()
        self._run(lambda: step.done(ticket), f"the computations of wave {ticket.wave}")

    def end_step(self, op: Op) -> StepTrace:
        """See `Backend.end_step`."""
        step = self._open_step()
        node = self._add((op,), None)[0]
        self._run(lambda: node.state is NodeState.DONE, op.describe())
        link_free_ns = self._machine.forecast_link()
        self._last_step, self._step = step, None
        return self._trace(step, node.end_ns, link_free_ns)

    def replay(self, programs: Sequence[Program]) -> tuple[StepTrace, ...]:
        """Issue whole programs at once, one step each, so that only their own waits order anything.

        Raises
        ------
        ExecutionError
            When an operation failed or met a wrong order.
        StallError
            When nothing could go on.
        """
        self._require_usable()
        steps = []
        for program in programs:
            step = StepNodes(self._count, self._machine.now_ns)
            self._steps[self._count] = step
            self._count += 1
            for op in program.ops:
                self._machine.push(step.add(op))
            steps.append(step)
        nodes = [node for step in steps for node in step.nodes]
        self._run(lambda: all(node.state is NodeState.DONE for node in nodes), "the programs")
        traces = []
        for step in steps:
            step.origin_ns = step.nodes[0].start_ns
            traces.append(self._trace(step, step.nodes[-1].end_ns, 0))
        return tuple(traces)

    def outcomes(self) -> dict[str, int]:
        """See `Backend.outcomes`."""
        step = self._step or self._last_step
        return step.outcomes() if step else {}

    def cancel(self) -> None:
        """See `Backend.cancel`."""
        self._abandon()
        self._failure = ExecutionError("the step was cancelled; call reset before the next one")

    def reset(self) -> None:
        """See `Backend.reset`."""
        if self._closed:
            raise ExecutionError("expected an open backend, got a closed one")
        self._abandon()
        self._last_step, self._step = self._step or self._last_step, None
        self._steps.clear()
        self._failure = None

    def close(self) -> None:
        """See `Backend.close`."""
        if not self._closed:
            self._abandon()
            self._closed = True

    def now_ns(self) -> int:
        """Virtual time since the step began, or since the backend was opened between steps."""
        return self._machine.now_ns - (self._step.origin_ns if self._step else 0)

    def _add(
        self,
        ops: Sequence[Op],
        work: Mapping[int, Work] | None,
        predict: Callable[[], None] | None = None,
    ) -> list[Node]:
        step = self._open_step()
        nodes = [step.add(op, work_of(op, work or {}, predict)) for op in ops]
        for node in nodes:
            self._machine.push(node)
        return nodes

    def _open_step(self) -> StepNodes:
        self._require_usable()
        if self._step is None:
            raise ExecutionError("expected begin_step first, got no open step")
        return self._step

    def _require_usable(self) -> None:
        if self._closed:
            raise ExecutionError("expected an open backend, got a closed one")
        if self._failure is not None:
            raise self._failure

    def _run(self, reached: Callable[[], bool], what: str) -> None:
        try:
            arrived = self._machine.run_until(reached)
        except Exception as error:
            self._abandon()
            self._failure = ExecutionError(f"{type(error).__name__} while waiting for {what}: {error}")
            raise self._failure from error
        if not arrived:
            heads = ", ".join(node.op.describe() for node in self._machine.waiting()) or "nothing queued"
            self._abandon()
            self._failure = StallError(f"expected {what} to finish, but nothing can go on: {heads}")
            raise self._failure

    def _abandon(self) -> None:
        self._machine.clear()
        self._effects.abandon()

    def _duration_ns(self, node: Node) -> int:
        factor = self._factors.get(node.op.stream)
        nominal = node.op.predicted_ns
        length = nominal if factor is None else round(nominal * factor)
        return length + extra_ns(self._options.delays, node.op, node.step)

    def _started(self, node: Node) -> None:
        # A copy may be left from a step that is gone.
        self._effects.started(node, self._steps.get(node.step), self._machine)

    def _trace(self, step: StepNodes, end_ns: int, link_free_ns: int) -> StepTrace:
        return step_trace(
            step,
            store=self._store,
            backend=self.name,
            model_ns=lambda time_ns: time_ns - step.origin_ns,
            end_ns=end_ns,
            link_free_ns=link_free_ns,
            timed=False,
        )
