"""What an imagined machine does, and sweeps of such outcomes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from prescope.whatif.knee import Knee, find_knee
from prescope.whatif.point import Lever, Point
from prescope.whatif.simulate import Steps

# Levers for which "twice as much" means something.
DOUBLING = (Lever.MEMORY, Lever.LINK, Lever.SPEED, Lever.BATCH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One point simulated.

    Parameters
    ----------
    point
        The machine.
    steps
        Steps that count.
    tokens_per_s
        Of all of them together.
    mean_ns, median_ns, p99_ns
        Duration of a step.
    copied_bytes_per_token
        Over the link.
    """

    point: Point
    steps: int
    tokens_per_s: float
    mean_ns: int
    median_ns: int
    p99_ns: int
    copied_bytes_per_token: float


def outcome_of(point: Point, found: Steps, *, warm: int) -> Outcome:
    """Statistics of the steps behind the first ``warm``."""
    times = found.times_ns[warm:]
    tokens = point.batch * len(times)
    return Outcome(
        point=point,
        steps=len(times),
        tokens_per_s=tokens / (int(times.sum()) / 1e9),
        mean_ns=round(float(times.mean())),
        median_ns=round(float(np.median(times))),
        p99_ns=round(float(np.percentile(times, 99))),
        copied_bytes_per_token=int(found.copied_bytes[warm:].sum()) / tokens,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """One lever moved, the others as they are.

    Parameters
    ----------
    lever
        Which.
    outcomes
        By ascending value.
    now
        Which of them is the machine as it is.
    knee
        Beyond which value doubling brings little; ``None`` for the predictor, where nothing doubles.
    """

    lever: Lever
    outcomes: tuple[Outcome, ...]
    now: int
    knee: Knee | None

    @property
    def values(self) -> tuple[float | None, ...]:
        """Values of the lever."""
        return tuple(one.point.value(self.lever) for one in self.outcomes)


def sweep_of(lever: Lever, outcomes: tuple[Outcome, ...], now: Point, *, full_bytes: int) -> Sweep:
    """A sweep from its outcomes, sorted, with its knee; memory beyond ``full_bytes`` would be idle."""
    ordered = tuple(sorted(outcomes, key=lambda one: _rank(one.point.value(lever))))
    at = next(index for index, one in enumerate(ordered) if one.point == now)
    knee = None
    if lever in DOUBLING:
        values = [float(one.point.value(lever) or 0) for one in ordered]
        full = lever is Lever.MEMORY and values[-1] >= full_bytes
        knee = find_knee(values, [one.tokens_per_s for one in ordered], flat_beyond=full)
    return Sweep(lever=lever, outcomes=ordered, now=at, knee=knee)


def outcome_row(one: Outcome) -> dict[str, Any]:
    """A flat row for CSV and JSON."""
    row = asdict(one)
    return {**row.pop("point"), **row}


def outcome_from(row: dict[str, Any]) -> Outcome:
    """An outcome from its flat row.

    Raises
    ------
    TypeError, ValueError
        When fields are missing, unknown or out of range.
    """
    names = Point.__dataclass_fields__
    point = Point(**{name: value for name, value in row.items() if name in names})
    return Outcome(point=point, **{name: value for name, value in row.items() if name not in names})


def _rank(value: float | None) -> float:
    return -1.0 if value is None else value
