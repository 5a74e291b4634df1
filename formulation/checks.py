"""Validation helpers shared by the data types: messages of the form "expected X in [a, b], got Y"."""

from __future__ import annotations


def require_int(name: str, value: object, low: int, high: int | None = None) -> None:
    """Refuse a value that is not an integer in ``[low, high]``.

    Raises
    ------
    ValueError
        Naming the quantity, the expected range and the value got.
    """
    # Plans check thousands of numbers; nearly all of them leave here.
    if type(value) is int and value >= low and (high is None or value <= high):
        return
    limit = "inf" if high is None else str(high)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"expected {name} to be an integer in [{low}, {limit}], got {value!r}")
    if value < low or (high is not None and value > high):
        raise ValueError(f"expected {name} in [{low}, {limit}], got {value}")


def require_finite(name: str, value: object, low: float) -> None:
    """Refuse a value that is not a finite number of at least ``low``.

    Raises
    ------
    ValueError
        Naming the quantity, the expected range and the value got.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"expected {name} to be a number >= {low}, got {value!r}")
    if not low <= value < float("inf"):
        raise ValueError(f"expected {name} to be finite and >= {low}, got {value}")
