"""Raw measurements behind a cost model: medians with their spread, series by series."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from prescope.formulation.checks import require_int

SeriesKind = Literal[
    "expert", "expert-while-reading", "dense-decode", "dense-prompt", "copy", "read", "expert-read"
]
SERIES_KINDS: tuple[SeriesKind, ...] = get_args(SeriesKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPoint:
    """One measured duration.

    Parameters
    ----------
    x
        Tokens, bytes, or reads in flight, as the series says.
    median_ns
        Median over the repeats in nanoseconds.
    low_ns, high_ns
        First and third quartile, around the median.
    repeats
        How often it was measured.
    """

    x: int
    median_ns: int
    low_ns: int
    high_ns: int
    repeats: int

    def __post_init__(self) -> None:
        require_int("x", self.x, 1)
        require_int("median_ns", self.median_ns, 0)
        require_int("low_ns", self.low_ns, 0, self.median_ns)
        require_int("high_ns", self.high_ns, self.median_ns)
        require_int("repeats", self.repeats, 1)

    @property
    def spread(self) -> float:
        """Distance of the quartiles relative to the median; 0 for a median of 0."""
        return (self.high_ns - self.low_ns) / self.median_ns if self.median_ns else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSeries:
    """One piece of work measured at several sizes.

    Parameters
    ----------
    kind
        ``"expert"``: one expert against tokens. ``"expert-while-reading"``: the same while the disk is read.
        ``"dense-decode"``, ``"dense-prompt"``: one layer from gate to gate against tokens, for sequences that
        decode and for one prompt. ``"copy"``: a copy inside memory against bytes. ``"read"``: a read from the
        checkpoint against bytes. ``"expert-read"``: time per expert against reads in flight.
    label
        What distinguishes it from others of its kind, for people.
    workers
        Threads of the work; reads in flight for ``"read"``; 1 for ``"expert-read"``.
    layer
        MoE layer; ``None`` where the layers do not differ.
    points
        At least one, ``x`` strictly increasing.
    """

    kind: SeriesKind
    label: str
    workers: int
    layer: int | None = None
    points: tuple[MeasuredPoint, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "points", tuple(self.points))
        if self.kind not in SERIES_KINDS:
            raise ValueError(f"expected kind among {', '.join(SERIES_KINDS)}, got {self.kind!r}")
        require_int("workers", self.workers, 1)
        if self.layer is not None:
            require_int("layer", self.layer, 0)
        if not self.points:
            raise ValueError(f"expected at least one point in the series {self.label!r}, got none")
        for low, high in zip(self.points, self.points[1:], strict=False):
            if high.x <= low.x:
                raise ValueError(f"expected increasing x in the series {self.label!r}, got {low.x}, {high.x}")

    @property
    def xs(self) -> tuple[int, ...]:
        """``x`` of the points."""
        return tuple(point.x for point in self.points)

    @property
    def medians_ns(self) -> tuple[int, ...]:
        """Medians of the points in nanoseconds."""
        return tuple(point.median_ns for point in self.points)
