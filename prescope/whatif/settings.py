"""What to imagine, and how much of the recording to replay for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product

from prescope.formulation.checks import require_int
from prescope.whatif.point import Lever, Point

Values = tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfSettings:
    """Settings of a what-if.

    Parameters
    ----------
    now
        The machine as it is.
    values
        Values of each lever that is swept, ascending, ``None`` (no predictor) first.
    grid
        Every combination, the values as it is among them, instead of one lever at a time.
    steps, warm
        Steps that count, and steps before them that fill what must be filled.
    lookahead
        Layers ahead that copies may be issued.
    overhead_ns
        Added to every layer, see `prescope.whatif.costs_at`.
    seed
        Of the sequences drawn and of the predictor's mistakes.
    policy, residency
        A gate policy, and for experts on disk the rule by which they stay in memory.
    """

    now: Point
    values: Mapping[Lever, Values] = field(default_factory=dict)
    grid: bool = False
    steps: int = 64
    warm: int = 16
    lookahead: int = 4
    overhead_ns: int = 0
    seed: int = 0
    policy: str = "expected"
    residency: str = "moving-average"

    def __post_init__(self) -> None:
        require_int("steps", self.steps, 1)
        require_int("warm", self.warm, 0)
        require_int("lookahead", self.lookahead, 0)
        require_int("overhead_ns", self.overhead_ns, 0)
        require_int("seed", self.seed, 0)
        for lever, values in self.values.items():
            ranks = [-1.0 if value is None else value for value in values]
            if not ranks or any(low >= high for low, high in zip(ranks, ranks[1:], strict=False)):
                raise ValueError(f"expected ascending values of {lever.value}, got {values}")

    def sweep_points(self, lever: Lever) -> tuple[Point, ...]:
        """The points of one lever's sweep, the machine as it is among them, by ascending value."""
        return tuple(self.now.moved(lever, value) for value in self._with_now(lever))

    def _with_now(self, lever: Lever) -> Values:
        values = {*self.values[lever], self.now.value(lever)}
        return tuple(sorted(values, key=lambda one: -1.0 if one is None else one))

    def points(self) -> tuple[Point, ...]:
        """All points, each once: the machine as it is first."""
        found = [self.now]
        for lever in self.values:
            found.extend(self.sweep_points(lever))
        if self.grid:
            for values in product(*(self._with_now(lever) for lever in self.values)):
                point = self.now
                for lever, value in zip(self.values, values, strict=True):
                    point = point.moved(lever, value)
                found.append(point)
        return tuple(dict.fromkeys(found))
