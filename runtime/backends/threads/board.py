"""What caller and workers share: the queues, who may go on, and the first error."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from prescope.runtime.backends._node import Node, NodeState
from prescope.runtime.backends.threads.clock import now_ns
from prescope.runtime.program import OpKind, Stream
from prescope.runtime.slots import SlotState, SlotTable

if TYPE_CHECKING:
    from prescope.runtime.backends.threads.crew import Lane


class Worker(NamedTuple):
    """One who carries out operations of a stream; number -1 is the caller."""

    stream: Stream
    number: int

    def __str__(self) -> str:
        return f"{self.stream}-{self.number}" if self.number > 0 else str(self.stream)


class Board:
    """Ordered queues with one lock. Whoever is not concerned by a change is not woken.

    Parameters
    ----------
    slots
        Number of device buffers.
    lanes
        How each side stream's operations are taken up.
    contents
        As for `SlotTable`.
    """

    def __init__(
        self, slots: int, lanes: Mapping[Stream, Lane], contents: Iterable[tuple[int, int, int]] = ()
    ) -> None:
        self.slots = SlotTable(slots, contents)
        self.lock = threading.Lock()
        self.failure: BaseException | None = None
        self.open_ns = 0  # modelled time of all that has not ended
        self._caller = threading.Condition(self.lock)
        self._lanes = dict(lanes)
        self._ready = {stream: threading.Condition(self.lock) for stream in lanes}
        self._queues: dict[Stream, deque[Node]] = {stream: deque() for stream in lanes}
        self.workers = tuple(
            Worker(stream, number) for stream, lane in lanes.items() for number in range(lane.workers)
        )
        self.own = tuple(Worker(stream, -1) for stream, lane in lanes.items() if not lane.workers)
        self._running: dict[Worker, Node | None] = dict.fromkeys((*self.workers, *self.own))
        # Raised when a worker is left behind: one of an older epoch drops what it has and ends.
        self._epoch = dict.fromkeys(self._running, 0)
        self._aborted = False
        self._stopped = False

    def push(self, nodes: Iterable[Node]) -> None:
        """Queue operations in order."""
        with self.lock:
            if self._aborted or self._stopped:
                for node in nodes:
                    node.state = NodeState.CANCELLED
                return
            for node in nodes:
                self._queues[node.op.stream].append(node)
                self.open_ns += node.op.predicted_ns
            self._wake()

    def epoch(self, worker: Worker) -> int:
        """The present epoch of a worker."""
        return self._epoch[worker]

    def take(self, worker: Worker, epoch: int) -> Node | None:
        """The next operation of a worker once its waits are over; ``None`` when the worker must end."""
        with self.lock:
            while True:
                if self._stopped or self._epoch[worker] != epoch:
                    return None
                if (node := self._next(worker.stream)) is not None:
                    return self._take(worker, node)
                self._ready[worker.stream].wait()

    def begin(self, node: Node, start_ns: int) -> None:
        """The operation really starts now; refused when its slot is not in the right state."""
        op = node.op
        with self.lock:
            node.start_ns = start_ns
            if op.place is not None and op.expert is not None:
                use = self.slots.begin_load if op.kind is OpKind.COPY else self.slots.begin_use
                use(op.place, op.layer, op.expert)

    def finish(self, node: Node, worker: Worker, epoch: int) -> None:
        """The operation is done; dropped when its worker was left behind meanwhile."""
        op = node.op
        with self.lock:
            if self._left_behind(node, worker, epoch):
                return
            self._running[worker] = None
            if self._aborted:
                node.state = NodeState.CANCELLED
            else:
                if op.place is not None and op.expert is not None:
                    end = self.slots.end_load if op.kind is OpKind.COPY else self.slots.end_use
                    end(op.place, op.layer, op.expert)
                node.end_ns = now_ns()
                node.state = NodeState.DONE
                node.release()
                self.open_ns -= op.predicted_ns
            self._wake()
            self._caller.notify_all()

    def fail(self, node: Node, worker: Worker, error: BaseException, epoch: int) -> None:
        """The operation failed: the first error wins, nothing more is started."""
        with self.lock:
            if self._left_behind(node, worker, epoch):
                return
            self._running[worker] = None
            node.state = NodeState.FAILED
            node.release()
            self._abort(error)

    def abort(self, error: BaseException) -> None:
        """Give up everything queued; what runs is cut short and ends as cancelled."""
        with self.lock:
            self._abort(error)

    def aborted(self) -> bool:
        """Whether running operations should end early."""
        return self._aborted or self._stopped

    def wait(self, reached: Callable[[], bool], timeout_s: float) -> tuple[Worker, Node] | bool:
        """Block the caller until a condition holds or something failed; ``False`` on timeout.

        Returns before that with an operation that the caller is to carry out, should there be one.
        """
        with self.lock:
            mine: list[tuple[Worker, Node]] = []

            def ended() -> bool:
                if self.failure is not None or reached():
                    return True
                mine.extend(
                    (worker, node) for worker in self.own if (node := self._next(worker.stream)) is not None
                )
                return bool(mine)

            if not self._caller.wait_for(ended, timeout_s):
                return False
            if not mine:
                return True
            worker, node = mine[0]
            return worker, self._take(worker, node)

    def drain(self, timeout_s: float) -> list[Worker]:
        """Wait until no operation runs; returns the workers that still do when the time is over."""
        with self.lock:
            for worker in self.own:
                # The caller is here, so it no longer carries anything out: it was interrupted.
                if (node := self._running[worker]) is not None:
                    node.state = NodeState.CANCELLED
                    self._running[worker] = None
            self._caller.wait_for(lambda: not any(self._running.values()), timeout_s)
            return [worker for worker, node in self._running.items() if node is not None]

    def leave_behind(self, worker: Worker) -> None:
        """A worker does not answer: its operation has failed, and its slot may still be written."""
        with self.lock:
            node = self._running[worker]
            self._running[worker] = None
            self._epoch[worker] += 1
            if node is not None:
                node.state = NodeState.FAILED
                if node.op.place is not None and node.op.kind is OpKind.COPY:
                    self.slots.bury(node.op.place)

    def recover(self) -> None:
        """Accept work again; nothing is believed of any slot."""
        with self.lock:
            self.slots.spoil_all()
            self.failure = None
            self._aborted = False
            self.open_ns = 0

    def stop(self) -> None:
        """End all workers as soon as they notice."""
        with self.lock:
            self._abort(self.failure)
            self._stopped = True
            for condition in self._ready.values():
                condition.notify_all()

    def link_nodes(self) -> list[Node]:
        """Copies that have not ended, in order; the lock must be held."""
        return [*self._runs(Stream.LINK), *self._queues[Stream.LINK]]

    def describe(self) -> str:
        """What every stream runs and waits for, in words."""
        with self.lock:
            return "; ".join(self._describe(stream) for stream in self._lanes)

    def _describe(self, stream: Stream) -> str:
        queue = self._queues[stream]
        running = ", ".join(node.op.describe() for node in self._runs(stream))
        words = [f"{stream}: runs {running or 'nothing'}"]
        if queue:
            missing = [wait.op.describe() for wait in queue[0].waits if wait.state is not NodeState.DONE]
            words.append(f"then {queue[0].op.describe()} after {', '.join(missing) or 'nothing'}")
        return ", ".join(words)

    def _runs(self, stream: Stream) -> list[Node]:
        return [node for worker, node in self._running.items() if node and worker.stream is stream]

    def _next(self, stream: Stream) -> Node | None:
        """The operation of a stream that may start now."""
        queue = self._queues[stream]
        if self._lanes[stream].overtaking:
            return next((node for node in queue if node.ready), None)
        return queue[0] if queue and queue[0].ready else None

    def _take(self, worker: Worker, node: Node) -> Node:
        queue = self._queues[worker.stream]
        if queue[0] is node:
            queue.popleft()
        else:
            queue.remove(node)
        node.state = NodeState.RUNNING
        self._running[worker] = node
        return node

    def _wake(self) -> None:
        for stream, lane in self._lanes.items():
            if self._queues[stream] and self._next(stream) is not None:
                # Each takes what is ready when it wakes, and sleeps on when that is nothing.
                self._ready[stream].notify(min(lane.workers, len(self._queues[stream])))

    def _abort(self, error: BaseException | None) -> None:
        if self.failure is None:
            self.failure = error
        self._aborted = True
        for queue in self._queues.values():
            for node in queue:
                node.state = NodeState.CANCELLED
                node.release()
            queue.clear()
        self._caller.notify_all()

    def _left_behind(self, node: Node, worker: Worker, epoch: int) -> bool:
        if self._epoch[worker] == epoch:
            return False
        slot = node.op.place
        if node.op.kind is OpKind.COPY and slot is not None and self.slots.state(slot) is SlotState.ZOMBIE:
            self.slots.revive(slot)
        return True
