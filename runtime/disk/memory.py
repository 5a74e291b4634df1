"""Memory that the disk fills fastest: in huge pages, so that one request covers much of it."""

from __future__ import annotations

import ctypes
import mmap
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

HUGE_BYTES = 2 << 20


def address_of(buffer: memoryview) -> int:
    """Where a writable buffer begins in memory."""
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


def aligned_memory(size_bytes: int) -> memoryview:
    """New zeroed memory that begins at a page; in huge pages, where it is large and the system has them.

    A request to a disk lists the pages it fills, and the list is bounded (254 entries on a virtual disk):
    with pages of 4 KiB a read of some megabytes becomes many requests. The system may still give small pages
    when its memory is fragmented; `huge_page_bytes` tells.
    """
    if size_bytes < HUGE_BYTES or not hasattr(mmap, "MADV_HUGEPAGE"):
        return memoryview(mmap.mmap(-1, size_bytes))[:size_bytes]
    # Room to begin where a huge page can; untouched memory costs nothing.
    room = -(-size_bytes // HUGE_BYTES) * HUGE_BYTES
    area = mmap.mmap(-1, room + HUGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    try:
        area.madvise(mmap.MADV_HUGEPAGE)
    except OSError:
        pass  # a kernel without them
    buffer = memoryview(area)
    first = -address_of(buffer) % HUGE_BYTES
    return buffer[first : first + size_bytes]


def huge_page_bytes(tensor: Tensor) -> int | None:
    """How much of the mapping with a tensor is in huge pages; ``None`` where the system does not say."""
    address = tensor.data_ptr()
    inside = False
    try:
        lines = Path("/proc/self/smaps").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        first, _, rest = line.partition(" ")
        if not first.endswith(":"):
            begin, _, end = first.partition("-")
            inside = int(begin, 16) <= address < int(end, 16)
        elif inside and first == "AnonHugePages:":
            return int(rest.split()[0]) << 10
    return None
