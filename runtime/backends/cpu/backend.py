"""The emulated accelerator's caller side."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence

from prescope.runtime.arena import DeviceArena
from prescope.runtime.backends._node import Node, NodeState, StepNodes
from prescope.runtime.backends._report import step_trace
from prescope.runtime.backends.base import Ticket, Work
from prescope.runtime.backends.cpu.board import SIDE_STREAMS, Board
from prescope.runtime.backends.cpu.clock import hold_until, now_ns, set_timer_slack
from prescope.runtime.backends.cpu.options import CpuOptions
from prescope.runtime.backends.cpu.worker import Machine, start_worker
from prescope.runtime.errors import ExecutionError, StallError
from prescope.runtime.program import Op, Stream
from prescope.runtime.slots import SlotTable
from prescope.runtime.store import HostStore
from prescope.runtime.trace import StepTrace

logger = logging.getLogger(__name__)


class CpuBackend:
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

    name = "cpu"

    def __init__(self, store: HostStore, arena: DeviceArena, options: CpuOptions) -> None:
        self._board = Board(arena.slots)
        self._machine = Machine(board=self._board, store=store, arena=arena, options=options)
        self._options = options
        self._step: StepNodes | None = None
        self._last_step: StepNodes | None = None
        self._count = 0
        self._degraded: list[str] = []
        self._closed = False
        self._slack_before: int | None = None
        self._workers: dict[Stream, threading.Thread] = {}
        for stream in SIDE_STREAMS:
            self._start_worker(stream)
        self._finalizer = weakref.finalize(self, self._board.stop)

    @property
    def slots(self) -> SlotTable:
        """States of the slots."""
        return self._board.slots

    @property
    def threads(self) -> tuple[threading.Thread, ...]:
        """The present worker threads."""
        return tuple(self._workers.values())

    def begin_step(self, ops: Sequence[Op], *, link_busy_ns: int = 0) -> None:
        """See `Backend.begin_step`."""
        self._require_usable()
        if self._step is not None:
            raise ExecutionError("expected end_step or reset before the next begin_step, got none")
        self._slack_before = set_timer_slack(1)
        origin_ns = now_ns()
        link_free_ns = origin_ns + round(link_busy_ns * self._options.dilation)
        self._step = StepNodes(self._count, origin_ns, link_free_ns)
        self._count += 1
        fork, *copies = self._add(ops, None)
        fork.start_ns = fork.end_ns = origin_ns
        fork.state = NodeState.DONE
        self._board.push(copies)

    def dense_begin(self, op: Op) -> None:
        """See `Backend.dense_begin`."""
        node = self._add((op,), None)[0]
        self._wait(lambda: node.ready, None, op.describe())
        node.start_ns = now_ns()
        node.state = NodeState.RUNNING

    def dense_end(self, op: Op) -> None:
        """See `Backend.dense_end`."""
        node = self._open_step().nodes[op.id]
        deadline_ns = node.start_ns + self._machine.held_ns(node)
        node.overran = now_ns() > deadline_ns
        hold_until(deadline_ns, lambda: False)
        node.end_ns = now_ns()
        node.state = NodeState.DONE

    def submit(self, ops: Sequence[Op], work: Mapping[int, Work] | None = None) -> Ticket:
        """See `Backend.submit`."""
        step = self._open_step()
        nodes = self._add(ops, work)
        self._board.push(nodes)
        return step.ticket(nodes, ops[0].wave if ops else -1)

    def wait(self, ticket: Ticket, timeout_s: float | None = None) -> None:
        """See `Backend.wait`."""
        step = self._open_step()
        self._wait(lambda: step.done(ticket), timeout_s, f"the computations of wave {ticket.wave}")

    def end_step(self, op: Op) -> StepTrace:
        """See `Backend.end_step`."""
        step = self._open_step()
        node = self._add((op,), None)[0]
        self._wait(lambda: node.ready, None, op.describe())
        node.start_ns = node.end_ns = now_ns()
        node.state = NodeState.DONE
        self._end(step)
        with self._board.lock:
            link_free_ns = self._forecast_link(node.end_ns)
            return step_trace(
                step,
                store=self._machine.store,
                backend=self.name,
                model_ns=lambda time_ns: self._model_ns(time_ns - step.origin_ns),
                end_ns=node.end_ns,
                link_free_ns=link_free_ns,
                timed=True,
                degraded=self._degraded,
                dilation=self._options.dilation,
            )

    def now_ns(self) -> int:
        """See `Backend.now_ns`."""
        return self._model_ns(now_ns() - self._open_step().origin_ns)

    def outcomes(self) -> dict[str, int]:
        """See `Backend.outcomes`."""
        step = self._step or self._last_step
        return step.outcomes() if step else {}

    def cancel(self) -> None:
        """See `Backend.cancel`."""
        self._board.abort(ExecutionError("the step was cancelled; call reset before the next one"))

    def reset(self) -> None:
        """See `Backend.reset`; a worker that does not end in time is replaced and its slot given up."""
        if self._closed:
            raise ExecutionError("expected an open backend, got a closed one")
        self._board.abort(ExecutionError("the step was reset"))
        for stream in self._leave_hung_behind():
            logger.warning("stream %s does not answer: it gets a new thread", stream)
            self._start_worker(stream)
            self._degraded.append(f"stream {stream} hung and was given a new thread")
        steps = [step for step in (self._step, self._last_step) if step is not None]
        touched = {node.op.slot for step in steps for node in step.nodes if node.op.slot is not None}
        self._board.recover(touched)
        if self._step is not None:
            self._end(self._step)

    def close(self) -> None:
        """See `Backend.close`; threads that do not end in time are left to end on their own."""
        if self._closed:
            return
        self._closed = True
        if self._step is not None:
            self._end(self._step)
        self._board.abort(ExecutionError("the backend was closed"))
        for stream in self._leave_hung_behind():
            del self._workers[stream]
        self._finalizer()
        for thread in self._workers.values():
            thread.join()

    def _start_worker(self, stream: Stream) -> None:
        import torch

        # A worker's own setting would otherwise become the default of threads started later.
        threads = torch.get_num_threads()
        self._workers[stream] = start_worker(self._machine, stream)
        torch.set_num_threads(threads)

    def _leave_hung_behind(self) -> list[Stream]:
        hung = self._board.drain(self._options.drain_s)
        for stream in hung:
            self._board.leave_behind(stream)
        return hung

    def _add(self, ops: Sequence[Op], work: Mapping[int, Work] | None) -> list[Node]:
        step = self._open_step()
        works = _in_callers_mode(work) if work else {}
        nodes = [step.add(op, None if op.expert is None else works.get(op.expert)) for op in ops]
        submitted_ns = now_ns()
        for node in nodes:
            node.submitted_ns = submitted_ns
        return nodes

    def _wait(self, reached: Callable[[], bool], timeout_s: float | None, what: str) -> None:
        limit_s = self._limit_s() if timeout_s is None else timeout_s
        if not self._board.wait(reached, limit_s):
            report = self._board.describe()
            error = StallError(f"expected {what} within {limit_s:.3f} s, got none; {report}")
            self._board.abort(error)
        self._require_usable()

    def _limit_s(self) -> float:
        return self._options.stall_floor_s + 4 * self._board.open_ns * self._options.dilation / 1e9

    def _open_step(self) -> StepNodes:
        self._require_usable()
        if self._step is None:
            raise ExecutionError("expected begin_step first, got no open step")
        return self._step

    def _require_usable(self) -> None:
        if self._closed:
            raise ExecutionError("expected an open backend, got a closed one")
        failure = self._board.failure
        if isinstance(failure, ExecutionError):
            raise failure
        if failure is not None:
            raise ExecutionError(f"{type(failure).__name__} in an operation: {failure}") from failure

    def _end(self, step: StepNodes) -> None:
        for node in step.nodes:
            # Nobody else ends what the caller itself has begun.
            if node.op.stream is Stream.CALLER and not node.final:
                node.state = NodeState.CANCELLED
        self._last_step, self._step = step, None
        if self._slack_before is not None:
            set_timer_slack(self._slack_before)

    def _forecast_link(self, from_ns: int) -> int:
        free_ns = from_ns
        for node in self._board.link_nodes():
            if node.state is NodeState.QUEUED or not node.start_ns:
                node.start_ns = max(free_ns, node.not_before_ns)
            free_ns = max(from_ns, node.start_ns + self._machine.held_ns(node))
            node.end_ns = free_ns
        return free_ns

    def _model_ns(self, real_ns: int) -> int:
        return round(real_ns / self._options.dilation)


def _in_callers_mode(work: Mapping[int, Work]) -> Mapping[int, Work]:
    """Work that runs under the caller's inference mode, which a worker thread does not inherit."""
    import torch

    if not torch.is_inference_mode_enabled():
        return work

    def wrapped(inner: Work) -> Work:
        def run(weights: Mapping[str, torch.Tensor]) -> None:
            with torch.inference_mode():
                inner(weights)

        return run

    return {expert: wrapped(inner) for expert, inner in work.items()}
