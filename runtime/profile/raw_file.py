"""Aligned reads of any size from a file, past the page cache where the system allows it."""

from __future__ import annotations

import mmap
import os
import random
import threading
from collections.abc import Callable
from pathlib import Path

# Covers every device's block size.
_ALIGNMENT = 4096


class RawFile:
    """A file to read pieces from, only to see how long it takes; close it in the end.

    Parameters
    ----------
    path
        The file.
    direct
        Read past the page cache; without it the pages read are given back at once.

    Attributes
    ----------
    size_bytes
        Its size.
    """

    def __init__(self, path: Path, *, direct: bool) -> None:
        self._path, self._direct = path, direct
        self._descriptor = os.open(path, os.O_RDONLY | (os.O_DIRECT if direct else 0))
        self.size_bytes = os.fstat(self._descriptor).st_size
        self._closed = False

    def __enter__(self) -> RawFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Further calls do nothing."""
        if not self._closed:
            self._closed = True
            os.close(self._descriptor)

    def reader(self, size_bytes: int, *, workers: int, seed: int) -> Callable[[int], int]:
        """A function that reads ``size_bytes`` at the next random aligned place; gets the worker's number.

        Raises
        ------
        ValueError
            When the file is smaller or the size is not a multiple of 4096.
        """
        if not 0 < size_bytes <= self.size_bytes or size_bytes % _ALIGNMENT:
            raise ValueError(
                f"expected a multiple of {_ALIGNMENT} in [{_ALIGNMENT}, {self.size_bytes}] to read from "
                f"{self._path}, got {size_bytes}"
            )
        rng, turn = random.Random(seed), threading.Lock()
        # Anonymous maps begin at a page, which direct reads need.
        buffers = [mmap.mmap(-1, size_bytes) for _ in range(workers)]
        last = (self.size_bytes - size_bytes) // _ALIGNMENT

        def read(worker: int) -> int:
            with turn:
                offset = rng.randint(0, last) * _ALIGNMENT
            got = os.preadv(self._descriptor, [buffers[worker]], offset)
            if got != size_bytes:
                raise OSError(f"{self._path}: expected {size_bytes} bytes at {offset}, got {got}")
            if not self._direct and hasattr(os, "posix_fadvise"):
                os.posix_fadvise(self._descriptor, offset, size_bytes, os.POSIX_FADV_DONTNEED)
            return got

        return read
