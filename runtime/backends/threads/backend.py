"""The caller's side of ordered worker threads."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence

from prescope.runtime.backends._node import Node, NodeState, StepNodes
from prescope.runtime.backends._payload import work_of
from prescope.runtime.backends._report import step_trace
from prescope.runtime.backends.base import Ticket, Work
from prescope.runtime.backends.threads.board import Worker
from prescope.runtime.backends.threads.clock import hold_until, now_ns, set_timer_slack
from prescope.runtime.backends.threads.crew import Crew
from prescope.runtime.backends.threads.worker import start_worker
from prescope.runtime.errors import ExecutionError, StallError
from prescope.runtime.program import Op, Stream
from prescope.runtime.slots import SlotTable
from prescope.runtime.trace import StepTrace

logger = logging.getLogger(__name__)


class ThreadedBackend:
    """Runs operations on worker threads, and those of a lane without any on the caller's while it waits.

    Parameters
    ----------
    name
        Its name in the registry.
    crew
        Does the real work.
    paced
        Whether operations are held to modelled times, so that overruns mean something.
    stall_floor_s
        Least real time that a wait allows on top of four times the modelled time.
    drain_s
        How long `reset` and `close` wait for running operations before they leave their threads behind.
    """

    def __init__(self, name: str, crew: Crew, *, paced: bool, stall_floor_s: float, drain_s: float) -> None:
        self._name, self._crew, self._board = name, crew, crew.board
        self._paced = paced
        self._stall_floor_s = stall_floor_s
        self._drain_s = drain_s
        self._step: StepNodes | None = None
        self._last_step: StepNodes | None = None
        self._count = 0
        self._degraded: list[str] = []
        self._closed = False
        self._slack_before: int | None = None
        self._threads = {worker: start_worker(crew, worker) for worker in self._board.workers}
        self._own_work = {worker: crew.enter(worker.stream) for worker in self._board.own}
        self._finalizer = weakref.finalize(self, self._board.stop)

    @property
    def name(self) -> str:
        """Its name in the registry."""
        return self._name

    @property
    def slots(self) -> SlotTable:
        """States of the slots."""
        return self._board.slots

    @property
    def threads(self) -> tuple[threading.Thread, ...]:
        """The present worker threads."""
        return tuple(self._threads.values())

    def begin_step(self, ops: Sequence[Op], *, link_busy_ns: int = 0) -> None:
        """See `Backend.begin_step`."""
        self._require_usable()
        if self._step is not None:
            raise ExecutionError("expected end_step or reset before the next begin_step, got none")
        origin_ns = now_ns()
        link_free_ns = origin_ns
        if self._paced:
            self._slack_before = set_timer_slack(1)
            origin_ns = now_ns()
            link_free_ns = origin_ns + round(link_busy_ns * self._crew.dilation)
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
        deadline_ns = node.start_ns + self._crew.held_ns(node)
        node.overran = now_ns() > deadline_ns
        hold_until(deadline_ns, lambda: False)
        node.end_ns = now_ns()
        node.state = NodeState.DONE

    def submit(
        self,
        ops: Sequence[Op],
        work: Mapping[int, Work] | None = None,
        predict: Callable[[], None] | None = None,
    ) -> Ticket:
        """See `Backend.submit`."""
        step = self._open_step()
        nodes = self._add(ops, work, predict)
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
                store=self._crew.store,
                backend=self.name,
                model_ns=lambda time_ns: self._model_ns(time_ns - step.origin_ns),
                end_ns=node.end_ns,
                link_free_ns=link_free_ns,
                timed=self._paced,
                degraded=(*self._crew.store.degraded, *self._degraded),
                dilation=self._crew.dilation,
                began_unix_ns=time.time_ns() - (now_ns() - step.origin_ns),
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
        for worker in self._leave_hung_behind():
            logger.warning("stream %s does not answer: it gets a new thread", worker)
            self._threads[worker] = start_worker(self._crew, worker)
            self._degraded.append(f"stream {worker} hung and was given a new thread")
        self._board.recover()
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
        for worker in self._leave_hung_behind():
            del self._threads[worker]
        self._finalizer()
        for thread in self._threads.values():
            thread.join()

    def _leave_hung_behind(self) -> list[Worker]:
        hung = self._board.drain(self._drain_s)
        for worker in hung:
            self._board.leave_behind(worker)
        return hung

    def _add(
        self,
        ops: Sequence[Op],
        work: Mapping[int, Work] | None,
        predict: Callable[[], None] | None = None,
    ) -> list[Node]:
        step = self._open_step()
        works = _in_callers_mode(work) if work else {}
        nodes = [step.add(op, work_of(op, works, predict)) for op in ops]
        submitted_ns = now_ns()
        for node in nodes:
            node.submitted_ns = submitted_ns
        return nodes

    def _wait(self, reached: Callable[[], bool], timeout_s: float | None, what: str) -> None:
        limit_s = self._limit_s() if timeout_s is None else timeout_s
        while isinstance(outcome := self._board.wait(reached, limit_s), tuple):
            self._carry_out(*outcome)
        if not outcome:
            report = self._board.describe()
            error = StallError(f"expected {what} within {limit_s:.3f} s, got none; {report}")
            self._board.abort(error)
        self._require_usable()

    def _carry_out(self, worker: Worker, node: Node) -> None:
        epoch = self._board.epoch(worker)
        try:
            self._own_work[worker](node)
        except BaseException as error:
            self._board.fail(node, worker, error, epoch)
            if not isinstance(error, Exception):
                # An interrupt is nobody's failure.
                raise
        else:
            self._board.finish(node, worker, epoch)

    def _limit_s(self) -> float:
        return self._stall_floor_s + 4 * self._board.open_ns * self._crew.dilation / 1e9

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
            length_ns = max(self._crew.held_ns(node), round(node.op.predicted_ns * self._crew.dilation))
            free_ns = max(from_ns, node.start_ns + length_ns)
            node.end_ns = free_ns
        return free_ns

    def _model_ns(self, real_ns: int) -> int:
        return round(real_ns / self._crew.dilation)


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
