"""Values of levers written as text, and sensible ones around the machine as it is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from prescope.formulation import parse_bytes
from prescope.whatif.point import Lever, Point
from prescope.whatif.settings import Values

_FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
# Beyond these nothing is imagined but overflows.
_LIMITS: dict[Lever, tuple[float, float]] = {
    Lever.MEMORY: (1, 1 << 60),
    Lever.LINK: (0.001, 1_000_000),
    Lever.SPEED: (0.001, 1000),
    Lever.BATCH: (1, 100_000),
    Lever.RECALL: (0, 1),
}
_RECALLS: Values = (None, 0.5, 0.7, 0.8, 0.9, 1.0)


def parse_values(lever: Lever, text: str, *, total_bytes: int) -> Values:
    """Read ``LOW:HIGH:COUNT`` or a list with commas, sorted, each value once.

    Memory is written with a unit or in per cent of all experts, a link in GB/s; ``none`` is no predictor.
    From ``LOW`` to ``HIGH`` every value is as many times the one before (recall: as much more).

    Raises
    ------
    ValueError
        When the text is no such thing.
    """
    one = _reader(lever, total_bytes)
    parts = [part.strip() for part in text.split(":")]
    if len(parts) == 1:
        found = [one(part.strip()) for part in text.split(",")]
    elif len(parts) == 3 and parts[2].isdecimal() and int(parts[2]) >= 2:
        low, high = one(parts[0]), one(parts[1])
        if low is None or high is None or not 0 < low < high:
            raise ValueError(f"expected LOW:HIGH:COUNT with 0 < LOW < HIGH for --{lever.value}, got {text!r}")
        space = np.linspace if lever is Lever.RECALL else np.geomspace
        found = [float(value) for value in space(low, high, int(parts[2]))]
        # The ends as they were written.
        found[0], found[-1] = low, high
    else:
        raise ValueError(
            f"expected --{lever.value} as LOW:HIGH:COUNT with COUNT >= 2 or as values with commas, "
            f"got {text!r}"
        )
    return _ordered(lever, found)


def parse_value(lever: Lever, text: str, *, total_bytes: int) -> float | None:
    """Read one value as it is now; as `parse_values`."""
    return _reader(lever, total_bytes, option=f"--{lever.value}-now")(text.strip())


def default_values(lever: Lever, now: Point, *, total_bytes: int, least_bytes: int) -> Values:
    """From a quarter to four times what there is; memory up to all experts, every kind of predictor."""
    if lever is Lever.RECALL:
        return _RECALLS
    here = float(now.value(lever) or 0)
    found: list[float | None] = [factor * here for factor in _FACTORS]
    if lever is Lever.MEMORY:
        found = [*(min(max(value or 0, least_bytes), total_bytes) for value in found), total_bytes]
    if lever is Lever.BATCH:
        found = [1, *(value for value in (here * 2**power for power in range(5)))]
    return _ordered(lever, found)


def _ordered(lever: Lever, found: list[float | None]) -> Values:
    if lever in (Lever.MEMORY, Lever.LINK, Lever.BATCH):
        found = [None if value is None else round(value) for value in found]
    return tuple(sorted(set(found), key=lambda value: -1.0 if value is None else value))


def _reader(lever: Lever, total_bytes: int, option: str = "") -> Callable[[str], float | None]:
    expected = f"{option or '--' + lever.value}: {_expected(lever)}"

    def read(text: str) -> float | None:
        if lever is Lever.RECALL and text.lower() == "none":
            return None
        try:
            if lever is Lever.MEMORY and text.endswith("%"):
                number = float(round(float(text[:-1]) / 100 * total_bytes))
            elif lever is Lever.MEMORY:
                number = float(parse_bytes(text))
            else:
                number = float(text)
        except (ValueError, OverflowError) as error:
            raise ValueError(f"{expected}, got {text!r}") from error
        low, high = _LIMITS[lever]
        if not low <= number <= high or number == 0 or (lever is Lever.BATCH and number != int(number)):
            raise ValueError(f"{expected}, got {text!r}")
        if lever is Lever.MEMORY:
            return round(number)
        return number * 1e9 if lever is Lever.LINK else number

    return read


def _expected(lever: Lever) -> str:
    low, high = _LIMITS[lever]
    return {
        Lever.MEMORY: "expected an amount of memory such as 4GiB or 25%",
        Lever.LINK: f"expected GB/s from {low:g} to {high:,.0f} such as 24",
        Lever.SPEED: f"expected a multiple from {low:g} to {high:g} such as 2",
        Lever.BATCH: f"expected a whole number from {low} to {high}",
        Lever.RECALL: "expected 'none' or a share in (0, 1] such as 0.8",
    }[lever]
