"""Columns come back as they went in."""

import base64
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prescope.page.codec import pack_columns, unpack_columns

WHOLE = st.integers(-(2**52) + 1, 2**52 - 1)


@given(st.lists(st.lists(st.one_of(WHOLE, st.integers(-130, 130)), max_size=20), max_size=6))
def test_columns_come_back(columns: list[list[int]]) -> None:
    assert [column.tolist() for column in unpack_columns(pack_columns(columns))] == columns


def test_the_format_is_as_described() -> None:
    raw = zlib.decompress(base64.b64decode(pack_columns([[0, -1, 1, 300], []])))
    assert list(raw) == [4, 8, 0, 1, 2, 0xD8, 0x04, 0]


@pytest.mark.parametrize("value", [2**52, -(2**52) - 1, 2**62])
def test_what_javascript_cannot_hold_is_refused(value: int) -> None:
    with pytest.raises(ValueError, match="between"):
        pack_columns([[value]])


def test_matrices_are_refused() -> None:
    with pytest.raises(ValueError, match="one dimension"):
        pack_columns([np.zeros((2, 2), dtype=np.int64)])


@pytest.mark.parametrize(
    "raw",
    [b"", bytes([0x80]), bytes([2, 8, 0]), bytes([4, 0])],
    ids=["empty", "broken off", "short", "columns"],
)
def test_broken_streams_are_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match="packed|columns"):
        unpack_columns(base64.b64encode(zlib.compress(raw)).decode())
    with pytest.raises(ValueError, match="packed"):
        unpack_columns(base64.b64encode(b"no zlib").decode())
