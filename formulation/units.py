"""The one place where quantities with units are read from text or written as text."""

from __future__ import annotations

import re

_BYTE_FACTORS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_BYTES_PATTERN = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]*)\s*")


def parse_bytes(text: str | int) -> int:
    """Read an amount of memory such as ``"4GiB"``, ``"512 MB"`` or a plain number of bytes.

    Raises
    ------
    ValueError
        When the text is not a non-negative amount with a known unit.
    """
    if isinstance(text, bool) or not isinstance(text, (str, int)):
        raise ValueError(f"expected an amount of memory such as '4GiB', got {text!r}")
    if isinstance(text, int):
        if text < 0:
            raise ValueError(f"expected a non-negative number of bytes, got {text}")
        return text
    match = _BYTES_PATTERN.fullmatch(text)
    factor = _BYTE_FACTORS.get(match.group(2).lower()) if match else None
    if match is None or factor is None:
        raise ValueError(f"expected an amount of memory such as '4GiB', '512MB' or '1048576', got {text!r}")
    return round(float(match.group(1)) * factor) if "." in match.group(1) else int(match.group(1)) * factor


def format_bytes(amount_bytes: int) -> str:
    """Write a number of bytes with a binary unit, three significant digits."""
    value = float(amount_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{amount_bytes} B" if unit == "B" else f"{_three_digits(value)} {unit}"
        value /= 1024
    return f"{_three_digits(value)} TiB"


def _three_digits(value: float) -> str:
    # Beyond three digits the general format would turn to an exponent.
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:.0f}"


def format_ns(duration_ns: int) -> str:
    """Write a duration in the largest unit that keeps it above one, three decimals at most."""
    if abs(duration_ns) >= 10**9:
        return f"{duration_ns / 1e9:.3f} s"
    if abs(duration_ns) >= 10**6:
        return f"{duration_ns / 1e6:.3f} ms"
    if abs(duration_ns) >= 10**3:
        return f"{duration_ns / 1e3:.2f} us"
    return f"{duration_ns} ns"
