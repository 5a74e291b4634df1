"""A memory control group (version 1) for one process, below the group that this process is in."""

from __future__ import annotations

import os
from pathlib import Path


class MemoryGroup:
    """Limits the memory of a process, its page cache included.

    Parameters
    ----------
    name
        Of the new group.

    Raises
    ------
    OSError
        Where there are no such groups, or they may not be made.
    """

    def __init__(self, name: str) -> None:
        parent = Path("/sys/fs/cgroup/memory")
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, place = line.split(":", 2)
            if "memory" in controllers.split(","):
                parent = parent / place.lstrip("/")
        if not (parent / "memory.limit_in_bytes").exists():
            raise OSError("expected a version 1 memory control group, got none")
        self._folder = parent / name
        self._folder.mkdir()

    def add(self, pid: int) -> None:
        """Put a process into it; what it allocates from now on is counted."""
        self._write("cgroup.procs", pid)

    def used_bytes(self) -> int:
        """What the process holds once its page cache is given up."""
        self._write("memory.force_empty", 0)
        return int((self._folder / "memory.usage_in_bytes").read_text())

    def limit(self, size_bytes: int | None) -> None:
        """Limit all memory, or lift the limit."""
        self._write("memory.limit_in_bytes", -1 if size_bytes is None else size_bytes)

    def cache_bytes(self) -> int:
        """Page cache that it holds now."""
        for line in (self._folder / "memory.stat").read_text().splitlines():
            key, value = line.split()
            if key == "cache":
                return int(value)
        return 0

    def remove(self) -> None:
        """Remove the group, after its process ended."""
        if self._folder.exists():
            os.rmdir(self._folder)

    def _write(self, name: str, value: int) -> None:
        (self._folder / name).write_text(str(value))
