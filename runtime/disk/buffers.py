"""Page-aligned buffers, lent to one read at a time and bounded in number."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from prescope.runtime.disk.memory import aligned_memory


class BufferPool:
    """Equal buffers that begin at a page.

    Parameters
    ----------
    size_bytes
        Size of each.
    most
        How many there are at most; whoever comes when all are lent waits.
    """

    def __init__(self, *, size_bytes: int, most: int) -> None:
        if size_bytes < 1 or most < 1:
            raise ValueError(f"expected at least one buffer of one byte, got {most} of {size_bytes}")
        self.size_bytes = size_bytes
        self.most = most
        self._free: list[memoryview] = []
        self._slots = threading.BoundedSemaphore(most)

    @contextmanager
    def lend(self) -> Iterator[memoryview]:
        """One buffer, for as long as the context lasts; its content is whatever was there."""
        with self._slots:
            # Appending to and popping from a list are atomic, and the last one given back is warm.
            try:
                buffer = self._free.pop()
            except IndexError:
                buffer = aligned_memory(self.size_bytes)
            try:
                yield buffer
            finally:
                self._free.append(buffer)
