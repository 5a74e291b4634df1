"""A clock that only moves when told to."""

import threading


class FakeClock:
    """Call it for the time in nanoseconds; `advance` moves it. May be used from several threads."""

    def __init__(self, tick_ns: int = 0) -> None:
        self._now_ns, self._tick_ns, self._lock = 0, tick_ns, threading.Lock()

    def __call__(self) -> int:
        with self._lock:
            self._now_ns += self._tick_ns
            return self._now_ns

    def advance(self, ns: int) -> None:
        with self._lock:
            self._now_ns += ns
