"""Columns of integers as short text: zigzag, variable length, deflated, base64.

The page's script reads them back (``assets/codec.js``). Columns that repeat one another lie side by side,
where deflate finds them: what was executed costs little beside what was planned.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]

_LEVEL = 9
_LIMIT = 2**53  # JavaScript's numbers are exact up to here.


def pack_columns(columns: Sequence[npt.ArrayLike]) -> str:
    """Pack columns of integers.

    Parameters
    ----------
    columns
        Each one-dimensional, integers between -2^52 and 2^52; lengths may differ.

    Returns
    -------
    str
        Base64 of a zlib stream: the number of columns, then each column's length and values, all as zigzag
        LEB128.

    Raises
    ------
    ValueError
        When a column is not one-dimensional or a value is out of range.
    """
    arrays = [np.asarray(column, dtype=np.int64) for column in columns]
    values: list[Int64] = [np.array([len(arrays)], dtype=np.int64)]
    for array in arrays:
        if array.ndim != 1:
            raise ValueError(f"expected a column of one dimension, got shape {array.shape}")
        values += [np.array([array.size], dtype=np.int64), array]
    return base64.b64encode(zlib.compress(_varints(np.concatenate(values)), _LEVEL)).decode()


def unpack_columns(text: str) -> list[Int64]:
    """Read what `pack_columns` wrote; the twin of the page's own reader.

    Raises
    ------
    ValueError
        When the text is not of `pack_columns`.
    """
    try:
        numbers = _integers(zlib.decompress(base64.b64decode(text, validate=True)))
    except zlib.error as error:
        raise ValueError(f"expected packed columns, got {error}") from error
    columns, at = [], 1
    for _ in range(int(numbers[0])):
        size = int(numbers[at]) if at < numbers.size else 0
        columns.append(numbers[at + 1 : at + 1 + size])
        at += 1 + size
    if at != numbers.size:
        raise ValueError(f"expected columns of {numbers.size} packed integers in all, got {at}")
    return columns


def _varints(values: Int64) -> bytes:
    """Seven bits to a byte, least significant first; the eighth says that more follow."""
    codes = ((values << 1) ^ (values >> 63)).astype(np.uint64)
    if codes.size and int(codes.max()) >= _LIMIT:
        raise ValueError("expected values between -2^52 and 2^52, got one beyond")
    lengths = np.ones(codes.size, dtype=np.int64)
    for bits in range(7, 56, 7):
        lengths += codes >= np.uint64(1 << bits)
    begins = np.cumsum(lengths) - lengths
    out = np.zeros(int(lengths.sum()), dtype=np.uint8)
    for byte in range(int(lengths.max(initial=0))):
        has = lengths > byte
        chunk = (codes[has] >> np.uint64(7 * byte)) & np.uint64(0x7F)
        more = (lengths[has] > byte + 1).astype(np.uint64) << np.uint64(7)
        out[begins[has] + byte] = (chunk | more).astype(np.uint8)
    return out.tobytes()


def _integers(data: bytes) -> Int64:
    raw = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(raw < 0x80)
    if not ends.size or ends[-1] != raw.size - 1:
        raise ValueError("expected packed integers, got a stream that breaks off")
    begins = np.concatenate(([0], ends[:-1] + 1))
    place = np.arange(raw.size) - np.repeat(begins, ends - begins + 1)
    parts = (raw.astype(np.uint64) & np.uint64(0x7F)) << (7 * place).astype(np.uint64)
    codes = np.add.reduceat(parts, begins)
    return (codes >> np.uint64(1)).astype(np.int64) ^ -(codes & np.uint64(1)).astype(np.int64)
