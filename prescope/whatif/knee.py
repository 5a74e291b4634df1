"""The knee of a curve: beyond it, twice as much brings less than a few per cent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2

LITTLE = 0.05
"""What doubling must bring to be worth more than little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knee:
    """Where a curve bends.

    Parameters
    ----------
    index
        The first value from which on every stretch of the curve rises by less than ``little`` per doubling;
        ``None`` where the last stretch still rises by more and may go on to.
    value
        That value.
    little
        See `LITTLE`.
    """

    index: int | None
    value: float | None
    little: float = LITTLE


def find_knee(
    values: Sequence[float], speeds: Sequence[float], *, little: float = LITTLE, flat_beyond: bool = False
) -> Knee:
    """The knee of speeds over values.

    Parameters
    ----------
    values
        Ascending, above 0.
    speeds
        Above 0, one for each.
    little
        Rise per doubling that counts as none, above 0.
    flat_beyond
        Whether nothing more can be gained behind the last value; otherwise nothing is known of it.

    Raises
    ------
    ValueError
        When the values are not ascending and positive, or the lengths differ.
    """
    if len(values) != len(speeds) or not values:
        raise ValueError(
            f"expected as many speeds as values, at least 1, got {len(speeds)} and {len(values)}"
        )
    if min(values) <= 0 or min(speeds) <= 0:
        raise ValueError("expected values and speeds above 0, got others")
    if any(low >= high for low, high in zip(values, values[1:], strict=False)):
        raise ValueError(f"expected ascending values, got {list(values)}")
    rises = rises_per_doubling(values, speeds)
    index = len(values) - 1
    while index > 0 and rises[index - 1] < little:
        index -= 1
    if index == len(values) - 1 and not flat_beyond:
        return Knee(index=None, value=None, little=little)
    return Knee(index=index, value=values[index], little=little)


def rises_per_doubling(values: Sequence[float], speeds: Sequence[float]) -> list[float]:
    """What doubling would bring on every stretch between two values, were it to go on like that."""
    return [
        (speeds[at + 1] / speeds[at]) ** (1 / log2(values[at + 1] / values[at])) - 1
        for at in range(len(values) - 1)
    ]
