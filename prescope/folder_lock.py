"""One run at a time in one folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LOCK = ".lock"


@contextmanager
def folder_lock(folder: Path, *, doing: str = "writing results", leave: bool = True) -> Iterator[None]:
    """Hold a folder; the system lets go of it when the process ends, however it ends.

    Parameters
    ----------
    folder
        Exists.
    doing
        What one who comes later is told that the holder does there.
    leave
        Whether the lock's file stays; otherwise it is removed in the end, as is a folder that is empty then.

    Raises
    ------
    ValueError
        When another process holds it.
    """
    descriptor = _held(folder, doing)
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode("ascii"), 0)
        yield
    finally:
        if not leave:
            with suppress(OSError):
                # While it is held: nobody else can have locked this very file.
                (folder / LOCK).unlink()
                folder.rmdir()
        os.close(descriptor)


def _held(folder: Path, doing: str) -> int:
    """Descriptor of the lock's file, locked."""
    import fcntl

    while True:
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_still(folder / LOCK, descriptor):
                return descriptor
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise ValueError(
                f"expected {folder} to be free, got process {holder} {doing} there; "
                "wait for it or name another folder with -o"
            ) from None
        except BaseException:
            os.close(descriptor)
            raise
        # Its holder removed it between the two calls.
        os.close(descriptor)


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
