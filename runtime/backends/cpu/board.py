"""What caller and workers share: the queues, who may go on, and the first error."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable

from prescope.runtime.backends._node import Node, NodeState
from prescope.runtime.backends.cpu.clock import now_ns
from prescope.runtime.program import OpKind, Stream
from prescope.runtime.slots import SlotState, SlotTable

SIDE_STREAMS = (Stream.LINK, Stream.GPU, Stream.CPU)


class Board:
    """Ordered queues with one lock. Whoever is not concerned by a change is not woken.

    Parameters
    ----------
    slots
        Number of device buffers.
    """

    def __init__(self, slots: int) -> None:
        self.slots = SlotTable(slots)
        self.lock = threading.Lock()
        self.failure: BaseException | None = None
        self.open_ns = 0  # modelled time of all that has not ended
        self._caller = threading.Condition(self.lock)
        self._ready = {stream: threading.Condition(self.lock) for stream in SIDE_STREAMS}
        self._queues: dict[Stream, deque[Node]] = {stream: deque() for stream in SIDE_STREAMS}
        self._running: dict[Stream, Node | None] = dict.fromkeys(SIDE_STREAMS)
        # Raised by every abort: a worker of an older epoch drops what it has and ends.
        self._epoch = dict.fromkeys(SIDE_STREAMS, 0)
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

    def epoch(self, stream: Stream) -> int:
        """The epoch of a stream's present worker."""
        return self._epoch[stream]

    def take(self, stream: Stream, epoch: int) -> Node | None:
        """The next operation of a stream once its waits are over; ``None`` when the worker must end."""
        with self.lock:
            queue = self._queues[stream]
            while True:
                if self._stopped or self._epoch[stream] != epoch:
                    return None
                if queue and queue[0].ready:
                    node = queue.popleft()
                    node.state = NodeState.RUNNING
                    self._running[stream] = node
                    return node
                self._ready[stream].wait()

    def begin(self, node: Node, start_ns: int) -> None:
        """The operation really starts now; refused when its slot is not in the right state."""
        op = node.op
        with self.lock:
            node.start_ns = start_ns
            if op.slot is not None and op.expert is not None:
                use = self.slots.begin_load if op.kind is OpKind.COPY else self.slots.begin_use
                use(op.slot, op.layer, op.expert)

    def finish(self, node: Node, epoch: int) -> None:
        """The operation is done; dropped when its worker was left behind meanwhile."""
        op = node.op
        with self.lock:
            if self._left_behind(node, epoch):
                return
            self._running[op.stream] = None
            if self._aborted:
                node.state = NodeState.CANCELLED
            else:
                if op.slot is not None and op.expert is not None:
                    end = self.slots.end_load if op.kind is OpKind.COPY else self.slots.end_use
                    end(op.slot, op.layer, op.expert)
                node.end_ns = now_ns()
                node.state = NodeState.DONE
                self.open_ns -= op.predicted_ns
            self._wake()
            self._caller.notify_all()

    def fail(self, node: Node, error: BaseException, epoch: int) -> None:
        """The operation failed: the first error wins, nothing more is started."""
        with self.lock:
            if self._left_behind(node, epoch):
                return
            self._running[node.op.stream] = None
            node.state = NodeState.FAILED
            self._abort(error)

    def abort(self, error: BaseException) -> None:
        """Give up everything queued; what runs is cut short and ends as cancelled."""
        with self.lock:
            self._abort(error)

    def aborted(self) -> bool:
        """Whether running operations should end early."""
        return self._aborted or self._stopped

    def wait(self, reached: Callable[[], bool], timeout_s: float) -> bool:
        """Block the caller until a condition holds or something failed; ``False`` on timeout."""
        with self.lock:
            return self._caller.wait_for(lambda: self.failure is not None or reached(), timeout_s)

    def drain(self, timeout_s: float) -> list[Stream]:
        """Wait until no operation runs; returns the streams that still do when the time is over."""
        with self.lock:
            self._caller.wait_for(lambda: not any(self._running.values()), timeout_s)
            return [stream for stream, node in self._running.items() if node is not None]

    def leave_behind(self, stream: Stream) -> None:
        """A worker does not answer: its operation has failed, and its slot may still be written."""
        with self.lock:
            node = self._running[stream]
            self._running[stream] = None
            self._epoch[stream] += 1
            if node is not None:
                node.state = NodeState.FAILED
                if node.op.slot is not None and node.op.kind is OpKind.COPY:
                    self.slots.bury(node.op.slot)

    def recover(self, touched: Iterable[int]) -> None:
        """Accept work again; nothing is believed of the slots named and of those that were cut off."""
        with self.lock:
            cut_off = (SlotState.LOADING, SlotState.IN_USE)
            for slot in {
                *touched,
                *(slot for slot in range(len(self.slots)) if self.slots.state(slot) in cut_off),
            }:
                self.slots.spoil(slot)
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
        running = self._running[Stream.LINK]
        return ([running] if running else []) + list(self._queues[Stream.LINK])

    def describe(self) -> str:
        """What every stream runs and waits for, in words."""
        with self.lock:
            return "; ".join(self._describe(stream) for stream in SIDE_STREAMS)

    def _describe(self, stream: Stream) -> str:
        running, queue = self._running[stream], self._queues[stream]
        words = [f"{stream}: runs {running.op.describe()}" if running else f"{stream}: runs nothing"]
        if queue:
            missing = [wait.op.describe() for wait in queue[0].waits if wait.state is not NodeState.DONE]
            words.append(f"then {queue[0].op.describe()} after {', '.join(missing) or 'nothing'}")
        return ", ".join(words)

    def _wake(self) -> None:
        for stream, queue in self._queues.items():
            if queue and self._running[stream] is None and queue[0].ready:
                self._ready[stream].notify()

    def _abort(self, error: BaseException | None) -> None:
        if self.failure is None:
            self.failure = error
        self._aborted = True
        for queue in self._queues.values():
            for node in queue:
                node.state = NodeState.CANCELLED
            queue.clear()
        self._caller.notify_all()

    def _left_behind(self, node: Node, epoch: int) -> bool:
        if self._epoch[node.op.stream] == epoch:
            return False
        slot = node.op.slot
        if node.op.kind is OpKind.COPY and slot is not None and self.slots.state(slot) is SlotState.ZOMBIE:
            self.slots.revive(slot)
        return True
