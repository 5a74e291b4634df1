"""Discrete events over streams: what starts when, in virtual nanoseconds."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable

from prescope.runtime.backends._node import Node, NodeState
from prescope.runtime.program import Stream

_Handler = Callable[[Node], None]


class Machine:
    """Streams that each run their operations in order, as soon as the waits are over.

    Parameters
    ----------
    duration_ns
        How long an operation takes.
    started, finished
        Called at those moments of an operation; what they raise goes through to the caller.
    """

    def __init__(self, duration_ns: Callable[[Node], int], started: _Handler, finished: _Handler) -> None:
        self.now_ns = 0
        self._duration_ns = duration_ns
        self._started = started
        self._finished = finished
        self._queues: dict[Stream, deque[Node]] = {stream: deque() for stream in Stream}
        self._running: dict[Stream, Node | None] = dict.fromkeys(Stream)
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0

    def push(self, node: Node) -> None:
        """Queue an operation on its stream; it starts with the next event loop at the earliest."""
        self._queues[node.op.stream].append(node)
        if node.not_before_ns > self.now_ns:
            self.at(node.not_before_ns, lambda: None)

    def at(self, time_ns: int, action: Callable[[], None]) -> None:
        """Call something at a virtual time; equal times keep their order of entry."""
        heapq.heappush(self._events, (time_ns, self._sequence, action))
        self._sequence += 1

    def run_until(self, reached: Callable[[], bool]) -> bool:
        """Let time pass until a condition holds; ``False`` when nothing can happen any more."""
        while True:
            self._start_ready()
            if reached():
                return True
            if not self._events:
                return False
            self.now_ns, _, action = heapq.heappop(self._events)
            action()

    def forecast_link(self) -> int:
        """Give queued copies the times they will have, no wait being open; returns when all are done."""
        running = self._running[Stream.LINK]
        free_ns = max(self.now_ns, running.end_ns if running else 0)
        for node in self._queues[Stream.LINK]:
            node.start_ns = max(free_ns, node.not_before_ns)
            free_ns = node.start_ns + self._duration_ns(node)
            node.end_ns = free_ns
        return free_ns

    def waiting(self) -> list[Node]:
        """Operations at the head of their streams that have not started."""
        return [queue[0] for queue in self._queues.values() if queue]

    def clear(self) -> None:
        """Cancel everything that has not ended."""
        running = [node for node in self._running.values() if node is not None]
        open_nodes = [*running, *(node for queue in self._queues.values() for node in queue)]
        for node in open_nodes:
            if not node.final:
                node.state = NodeState.CANCELLED
        for stream in Stream:
            self._queues[stream].clear()
            self._running[stream] = None
        self._events.clear()

    def _start_ready(self) -> None:
        progress = True
        while progress:
            progress = False
            for stream, queue in self._queues.items():
                if (
                    queue
                    and self._running[stream] is None
                    and queue[0].not_before_ns <= self.now_ns
                    and queue[0].ready
                ):
                    self._start(stream, queue.popleft())
                    progress = True

    def _start(self, stream: Stream, node: Node) -> None:
        node.state = NodeState.RUNNING
        node.start_ns = self.now_ns
        node.end_ns = self.now_ns + self._duration_ns(node)
        self._running[stream] = node
        self._guarded(self._started, node)
        self.at(node.end_ns, lambda: self._finish(stream, node))

    def _finish(self, stream: Stream, node: Node) -> None:
        self._guarded(self._finished, node)
        node.state = NodeState.DONE
        self._running[stream] = None

    @staticmethod
    def _guarded(handler: _Handler, node: Node) -> None:
        try:
            handler(node)
        except BaseException:
            node.state = NodeState.FAILED
            raise
