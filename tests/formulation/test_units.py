"""Bytes and durations, read and written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prescope.formulation import format_bytes, format_ns, parse_bytes


@pytest.mark.parametrize(
    ("text", "expected_bytes"),
    [
        ("0", 0),
        ("1048576", 2**20),
        (17, 17),
        ("17b", 17),
        ("4GiB", 4 * 2**30),
        (" 512 MB ", 512 * 10**6),
        ("1.5 kib", 1536),
        ("0.5TB", 5 * 10**11),
        ("2tib", 2 * 2**40),
        ("3kB", 3000),
        ("9007199254740993", 2**53 + 1),  # no detour over floating point
    ],
)
def test_bytes_read(text, expected_bytes):
    assert parse_bytes(text) == expected_bytes


@pytest.mark.parametrize(
    "text", ["", "GiB", "-1", "1,5GiB", "4 gigs", "4GiBs", "1e9", ".5GB", "nan", "inf", "4 G iB"]
)
def test_bytes_refused(text):
    with pytest.raises(ValueError) as refused:
        parse_bytes(text)
    assert (
        str(refused.value)
        == f"expected an amount of memory such as '4GiB', '512MB' or '1048576', got {text!r}"
    )


@pytest.mark.parametrize("value", [True, 1.5, None, b"4GiB"])
def test_bytes_of_another_type_refused(value):
    with pytest.raises(ValueError) as refused:
        parse_bytes(value)
    assert str(refused.value) == f"expected an amount of memory such as '4GiB', got {value!r}"


def test_negative_bytes_refused():
    with pytest.raises(ValueError, match="^expected a non-negative number of bytes, got -1$"):
        parse_bytes(-1)


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (1000 * 1024, "1000 KiB"),
        (1023 * 2**20, "1023 MiB"),
        (13212057, "12.6 MiB"),
        (4 * 2**30, "4 GiB"),
        (5000 * 2**40, "5000 TiB"),
    ],
)
def test_bytes_written(amount, text):
    assert format_bytes(amount) == text


@given(st.integers(0, 2**52))
def test_written_bytes_read_back_within_half_a_percent(amount):
    assert abs(parse_bytes(format_bytes(amount)) - amount) <= 0.005 * amount


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1500, "1.50 us"),
        (2_500_000, "2.500 ms"),
        (3 * 10**9, "3.000 s"),
        (-1500, "-1.50 us"),
    ],
)
def test_durations_written(duration, text):
    assert format_ns(duration) == text
