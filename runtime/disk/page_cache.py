"""How much of a file the page cache holds."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from pathlib import Path


def cached_bytes(file: str | Path) -> int | None:
    """Bytes of a file in the page cache now, in whole pages; ``None`` where the system does not say.

    Asks Linux's ``mincore``, which tells the truth about files that the caller owns or may write, and claims
    that everything is in the cache for others.
    """
    if not sys.platform.startswith("linux"):
        return None
    size_bytes = os.stat(file).st_size
    if size_bytes == 0:
        return 0
    library = ctypes.CDLL(None, use_errno=True)
    pages = -(-size_bytes // mmap.PAGESIZE)
    held = (ctypes.c_ubyte * pages)()
    with open(file, "rb") as stream:
        # Private and writable, as ctypes takes the address of nothing else; it is never written.
        area = mmap.mmap(stream.fileno(), size_bytes, flags=mmap.MAP_PRIVATE)
    try:
        view = ctypes.c_char.from_buffer(area)
        address = ctypes.c_void_p(ctypes.addressof(view))
        failed = library.mincore(address, ctypes.c_size_t(size_bytes), held)
        del view
        if failed:
            return None
    finally:
        area.close()
    return sum(page & 1 for page in held) * mmap.PAGESIZE
