"""Archives of plain arrays (``.npz``): no pickle, and no memory for a size that was not checked."""

from __future__ import annotations

import math
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
import numpy.typing as npt

from prescope.instances.file_error import InstanceFileError
from prescope.instances.limits import MAX_TRACE_BYTES

Arrays = dict[str, npt.NDArray[Any]]

DAMAGED = "The file is damaged: fetch it again, or record it again"

_MAX_ARRAYS = 64
_MAX_DIMENSIONS = 8
_MAX_HEADER_BYTES = 16_384
_MAX_DIRECTORY_BYTES = 65_536
_BLOCK_BYTES = 1 << 22
_MAGIC = b"\x93NUMPY"
_HEADER = re.compile(
    rb"\{'descr': '(?P<dtype>[<>|=]?[biufU][0-9]{1,9})', 'fortran_order': (?P<fortran>True|False), "
    rb"'shape': \((?P<shape>|[0-9]{1,19},|[0-9]{1,19}(, ?[0-9]{1,19})+,?)\),? *\} *\n?"
)

# What the standard library raises for archives that are damaged, encrypted or of another kind.
_ARCHIVE_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    UnicodeDecodeError,
    OverflowError,
)


class ArraySource(Protocol):
    """An array that need not be in memory."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """Its type."""
        ...

    def blocks(self) -> Iterator[bytes | memoryview]:
        """Its bytes in C order, a piece at a time."""
        ...


class InMemory:
    """An array as a source."""

    def __init__(self, array: npt.NDArray[Any]) -> None:
        self._array = array
        self.shape: tuple[int, ...] = array.shape
        self.dtype: np.dtype[Any] = array.dtype

    def blocks(self) -> Iterator[bytes | memoryview]:
        """See `ArraySource`."""
        array = self._array
        if array.ndim == 0:
            yield array.tobytes()
            return
        rows = max(1, _BLOCK_BYTES // max(1, array[:1].nbytes))
        for start in range(0, len(array), rows):
            yield np.ascontiguousarray(array[start : start + rows]).tobytes()


def write_npz(stream: IO[bytes], sources: Iterable[tuple[str, ArraySource]]) -> None:
    """Write sources one after the other, compressed; equal content gives equal bytes."""
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, allowZip64=True) as archive:
        for name, source in sources:
            # The size is not known to the archive beforehand.
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                header = {
                    "descr": np.lib.format.dtype_to_descr(source.dtype),
                    "fortran_order": False,
                    "shape": source.shape,
                }
                np.lib.format.write_array_header_1_0(entry, header)
                for block in source.blocks():
                    entry.write(block)


def read_npz(path: Path) -> Arrays:
    """Read all arrays of an archive; read-only.

    Raises
    ------
    InstanceFileError
        When it is missing, damaged, holds objects, or claims more than `MAX_TRACE_BYTES`.
    """
    try:
        if not path.is_file():
            problem = "expected a regular file, got none"
            raise InstanceFileError(path, "file", problem, "Check the path")
        with open(path, "rb") as stream:
            _bound_directory(path, stream)
            with zipfile.ZipFile(stream) as archive:
                return _arrays(path, archive)
    except _ARCHIVE_ERRORS as error:
        problem = f"expected an npz archive, got {str(error)[:200]}"
        raise InstanceFileError(path, "file", problem, DAMAGED) from error
    except OSError as error:
        problem = f"expected a readable file, got {error.strerror or error}"
        raise InstanceFileError(path, "file", problem, "Check the path and the permissions") from error


def _bound_directory(path: Path, stream: IO[bytes]) -> None:
    """Refuse a list of entries larger than any trace's: the archive reader would load it whole."""
    size_bytes = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size_bytes - 98))
    tail = stream.read().rjust(98, b"\0")
    end, locator, large = tail[76:], tail[56:76], tail[:56]
    if not end.startswith(b"PK\x05\x06") or end[20:] != b"\0\0":
        # No writer of arrays puts a comment behind the directory, which would hide its end.
        raise zipfile.BadZipFile("another end than an archive's")
    listed_bytes = int.from_bytes(end[12:16], "little")
    if locator.startswith(b"PK\x06\x07") and large.startswith(b"PK\x06\x06"):
        listed_bytes = int.from_bytes(large[40:48], "little")
    if listed_bytes > _MAX_DIRECTORY_BYTES:
        problem = f"expected at most {_MAX_ARRAYS} arrays in the archive, got {listed_bytes} bytes of names"
        raise InstanceFileError(path, "file", problem, DAMAGED)
    stream.seek(0)


def _arrays(path: Path, archive: zipfile.ZipFile) -> Arrays:
    entries = archive.infolist()
    size_bytes = sum(entry.file_size for entry in entries)
    if size_bytes > MAX_TRACE_BYTES or len(entries) > _MAX_ARRAYS:
        problem = (
            f"expected at most {MAX_TRACE_BYTES} bytes in {_MAX_ARRAYS} arrays, "
            f"got {size_bytes} in {len(entries)}"
        )
        raise InstanceFileError(path, "file", problem, "Split the trace")
    arrays: Arrays = {}
    for entry in entries:
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise zipfile.BadZipFile(f"compression method {entry.compress_type}")
        name = entry.filename.removesuffix(".npy")
        if name in arrays:
            raise InstanceFileError(path, name[:60], "expected one array, got two", DAMAGED)
        with archive.open(entry) as stream:
            arrays[name] = _array(path, name, stream, entry.file_size)
    return arrays


def _array(path: Path, name: str, stream: IO[bytes], size_bytes: int) -> npt.NDArray[Any]:
    """Read one ``.npy`` entry; the header's claim is compared with the entry's size before it is believed."""
    try:
        head = stream.read(min(size_bytes, _MAX_HEADER_BYTES))
        shape, fortran, dtype, length = _header(head)
        body = size_bytes - length
        if math.prod(shape) * dtype.itemsize != body:
            raise ValueError(f"{shape} of {dtype} in {body} bytes")
        array = np.empty(shape, dtype=dtype, order="F" if fortran else "C")
        _fill((array.T if fortran else array).reshape(-1).view(np.uint8), head[length:], stream)
        _require_text(array)
    except (ValueError, TypeError, MemoryError, OverflowError) as error:
        problem = f"expected an array of plain numbers, got {str(error)[:200]}"
        raise InstanceFileError(path, name[:60], problem, DAMAGED) from error
    array.flags.writeable = False
    return array


def _header(head: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, order, type and length of a ``.npy`` header.

    The reader of numpy evaluates the header as Python, which raises whatever Python raises; this one knows
    the one form that is written.
    """
    sizes = {b"\x01\x00": "<H", b"\x02\x00": "<I"}
    if head[:6] != _MAGIC or head[6:8] not in sizes:
        raise ValueError(f"{head[:8]!r} as its first bytes")
    form = sizes[head[6:8]]
    start = 8 + struct.calcsize(form)
    (length,) = struct.unpack(form, head[8:start])
    match = _HEADER.fullmatch(head[start : start + length])
    if match is None:
        raise ValueError(f"a header of {head[start : start + min(length, 80)]!r}")
    shape = tuple(int(size) for size in match["shape"].split(b",") if size.strip())
    dtype = np.dtype(match["dtype"].decode())
    if dtype.itemsize == 0 or len(shape) > _MAX_DIMENSIONS:
        raise ValueError(f"{len(shape)} dimensions of {dtype}")
    return shape, match["fortran"] == b"True", dtype, start + length


def _require_text(array: npt.NDArray[Any]) -> None:
    """Refuse what is not text in an array of text: numpy would make impossible strings of it."""
    if array.dtype.kind == "U" and array.size:
        points = np.frombuffer(array.tobytes(), dtype=array.dtype.byteorder.replace("|", "=") + "u4")
        if int(points.max()) > 0x10FFFF or ((points >= 0xD800) & (points <= 0xDFFF)).any():
            raise ValueError("characters that do not exist")


def _fill(target: npt.NDArray[np.uint8], first: bytes, rest: IO[bytes]) -> None:
    """Fill bytes piece by piece; the last read also checks the entry's own checksum."""
    at = len(first)
    target[:at] = np.frombuffer(first, dtype=np.uint8)
    while piece := rest.read(_BLOCK_BYTES):
        target[at : at + len(piece)] = np.frombuffer(piece, dtype=np.uint8)
        at += len(piece)
    if at != len(target):
        raise ValueError(f"{at} of {len(target)} bytes")


def checked_blocks(arrays: Mapping[str, ArraySource]) -> Iterator[bytes | memoryview]:
    """What a checksum over named arrays is taken over: names, types, shapes and bytes, by name."""
    for name in sorted(arrays):
        source = arrays[name]
        yield f"\0{name} {source.dtype.str} {source.shape}\0".encode()
        yield from source.blocks()
