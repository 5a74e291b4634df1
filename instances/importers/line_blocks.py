"""Reads a text file, compressed or not, in blocks of whole lines and in little memory."""

from __future__ import annotations

import stat
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from prescope.instances.file_error import InstanceFileError

Progress = Callable[[int, int], None]
"""Called with the bytes read so far and all bytes, both as on disk."""

_READ_BYTES = 1 << 18
_BLOCK_BYTES = 1 << 22
# Routing logs shrink to a tenth or twentieth; what grows more than this was made to.
_EXPANSION = 400
_FREE_BYTES = 1 << 24
_MAX_MEMBERS = 10_000
_DAMAGED = "The file is damaged: fetch it again, or export it again"


def line_blocks(
    path: Path, *, max_line_bytes: int, progress: Progress | None = None
) -> Iterator[tuple[int, bytes]]:
    """Yield ``(number of the first line, lines)``; each block ends with a line break.

    Parameters
    ----------
    path
        ``.gz`` at the end says that it is compressed.
    max_line_bytes
        Longest line accepted.
    progress
        See `Progress`.

    Raises
    ------
    InstanceFileError
        When it is missing, not a regular file, damaged, grows suspiciously, holds a longer line, or ends
        inside one.
    """
    number, rest = 1, b""
    for piece in _pieces(path, progress):
        cut = piece.rfind(b"\n") + 1
        if not cut:
            rest += piece
        else:
            block = rest + piece[:cut]
            rest = piece[cut:]
            yield number, block
            number += block.count(b"\n")
        if len(rest) > max_line_bytes:
            problem = f"expected at most {max_line_bytes} bytes in a line, got at least {len(rest)}"
            raise InstanceFileError(path, f"line {number}", problem, "Check that the file is a routing log")
    if rest:
        problem = "expected a line break at the end of the file, got a line that was cut"
        raise InstanceFileError(
            path, f"line {number}", problem, "Delete the cut line, or export the log again"
        )
    if number == 1:
        raise InstanceFileError(path, "line 1", "expected a routing log, got an empty file", _DAMAGED)


def _pieces(path: Path, progress: Progress | None) -> Iterator[bytes]:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise InstanceFileError(path, "file", "expected a regular file", "Name a file")
        with open(path, "rb") as stream:
            for piece in _inflated(path, stream) if path.suffix == ".gz" else _plain(stream):
                yield piece
                if progress is not None:
                    progress(stream.tell(), status.st_size)
    except zlib.error as error:
        raise InstanceFileError(path, "file", f"expected gzip data, got {error}", _DAMAGED) from error
    except OSError as error:
        problem = f"expected a readable file, got {error.strerror or error}"
        raise InstanceFileError(path, "file", problem, "Check the path and the permissions") from error


def _plain(stream: IO[bytes]) -> Iterator[bytes]:
    while piece := stream.read(_BLOCK_BYTES):
        yield piece


def _inflated(path: Path, stream: IO[bytes]) -> Iterator[bytes]:
    """Decompress member after member, never more at once than a block."""
    data, grown_bytes, members = b"", 0, 0
    while data or (data := stream.read(_READ_BYTES)):
        members += 1
        if members > _MAX_MEMBERS:
            problem = f"expected at most {_MAX_MEMBERS} compressed parts, got more"
            raise InstanceFileError(path, "file", problem, "Compress the log in one piece")
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            piece = member.decompress(data, _BLOCK_BYTES)
            data = member.unconsumed_tail
            grown_bytes += len(piece)
            if grown_bytes > _FREE_BYTES + _EXPANSION * stream.tell():
                problem = f"expected text that grows up to {_EXPANSION} times, got {grown_bytes} bytes"
                raise InstanceFileError(path, "file", problem, "Decompress it yourself if you trust it")
            if piece:
                yield piece
            if not (data or member.eof or (data := stream.read(_READ_BYTES))):
                problem = "expected complete gzip data, got a truncated file"
                raise InstanceFileError(path, "file", problem, _DAMAGED)
        data = member.unused_data
