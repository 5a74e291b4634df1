"""The operating system's calls that reading needs, in one place: tests put faults here."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path


class SystemCalls:
    """Opens, reads and closes files. Every method may raise `OSError`."""

    def open(self, file: Path, *, direct: bool) -> int:
        """Open a file for reading, past the page cache when ``direct``; return its descriptor.

        Raises
        ------
        OSError
            Also where the system, or the file system, knows no direct reads.
        """
        flags = os.O_RDONLY | os.O_CLOEXEC
        if not direct:
            descriptor = os.open(file, flags)
            if hasattr(fcntl, "F_NOCACHE"):  # macOS
                fcntl.fcntl(descriptor, fcntl.F_NOCACHE, 1)
            elif hasattr(os, "posix_fadvise"):
                # No reading ahead: what is not asked for must not enter the page cache.
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
            return descriptor
        if not hasattr(os, "O_DIRECT"):
            raise OSError("this system has no O_DIRECT")
        return os.open(file, flags | os.O_DIRECT)

    def read(self, descriptor: int, buffers: Sequence[memoryview], offset_bytes: int) -> int:
        """Fill buffers in order from one place of a file; return how many bytes came."""
        return os.preadv(descriptor, buffers, offset_bytes)

    def size_bytes(self, descriptor: int) -> int:
        """Size of an open file."""
        return os.fstat(descriptor).st_size

    def drop_cache(self, descriptor: int, offset_bytes: int, size_bytes: int) -> None:
        """Take a range of a file out of the page cache where the system can."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(descriptor, offset_bytes, size_bytes, os.POSIX_FADV_DONTNEED)

    def close(self, descriptor: int) -> None:
        """Close a file."""
        os.close(descriptor)
