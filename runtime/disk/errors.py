"""What can be wrong with a checkpoint, and what can go wrong while reading it."""

from __future__ import annotations

import errno
from pathlib import Path


class CheckpointError(ValueError):
    """A checkpoint that cannot be served; the message names the file, the tensor, and what to do."""


class DiskReadError(OSError):
    """Reading failed: an error of the disk, or a file that is not what it was when it was opened.

    What was to be read is undefined afterwards. The next read opens the file again, so a fault that has
    passed does no further harm.

    Parameters
    ----------
    file
        The file.
    offset_bytes
        Where in the file the data was expected.
    expected_bytes, got_bytes
        How much was expected, and how much came.
    reason
        What happened.
    error
        Number of the operating system's error; ``EIO`` where it reported none.
    """

    def __init__(
        self,
        *,
        file: Path,
        offset_bytes: int,
        expected_bytes: int,
        got_bytes: int,
        reason: str,
        error: int = errno.EIO,
    ) -> None:
        super().__init__(
            error,
            f"expected {expected_bytes} bytes at offset {offset_bytes} of {file}, got {got_bytes}: {reason}",
        )
        self.file = file
        self.offset_bytes = offset_bytes
        self.expected_bytes = expected_bytes
        self.got_bytes = got_bytes
        self.reason = reason
