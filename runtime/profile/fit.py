"""A line or a table: what each gets wrong, and which one a cost model takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prescope.formulation import LinearTime, TableTime, TimeCurve
from prescope.instances import MeasuredSeries

LINE_TOLERANCE = 0.05
"""Largest relative error at a measured point with which a line is still taken for a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitError:
    """Relative errors of a description at measured points.

    Parameters
    ----------
    mean, largest
        Of the absolute values.
    """

    mean: float
    largest: float


def fit_line(xs: Sequence[int], times_ns: Sequence[int]) -> LinearTime:
    """The line ``fixed + slope * x``, neither below zero, with the least sum of squared RELATIVE errors.

    Absolute errors would let the largest size decide alone.

    Parameters
    ----------
    xs
        Sizes, at least one.
    times_ns
        Durations, as many, in nanoseconds.
    """
    points = [(float(x), max(1.0, float(time_ns))) for x, time_ns in zip(xs, times_ns, strict=True)]
    if not points:
        raise ValueError("expected at least one point to fit a line to, got none")
    # Weighted normal equations with weight 1 / time^2.
    a = sum(1 / y**2 for _, y in points)
    b = sum(x / y**2 for x, y in points)
    c = sum(x * x / y**2 for x, y in points)
    d = sum(1 / y for _, y in points)
    e = sum(x / y for x, y in points)
    determinant = a * c - b * b
    if determinant > 1e-12 * a * c:
        fixed, slope = (c * d - b * e) / determinant, (a * e - b * d) / determinant
        if fixed >= 0 and slope >= 0:
            return LinearTime(fixed_ns=round(fixed), per_token_ns=slope)
    # The best line has a negative coefficient: the best allowed one lies on the border.
    candidates = (LinearTime(fixed_ns=round(d / a)), LinearTime(fixed_ns=0, per_token_ns=e / c))
    return min(candidates, key=lambda line: _squares(line, points))


def _squares(line: LinearTime, points: Sequence[tuple[float, float]]) -> float:
    return sum(((line.fixed_ns + line.per_token_ns * x) / y - 1) ** 2 for x, y in points)


def curve_error(curve: TimeCurve, xs: Sequence[int], times_ns: Sequence[int]) -> FitError:
    """How far a curve is from measured points."""
    errors = [abs(curve(x) - time_ns) / max(1, time_ns) for x, time_ns in zip(xs, times_ns, strict=True)]
    return FitError(mean=sum(errors) / len(errors), largest=max(errors))


def line_error(series: MeasuredSeries) -> FitError:
    """How wrong the best line is at the measured points of a series."""
    return curve_error(fit_line(series.xs, series.medians_ns), series.xs, series.medians_ns)


def table_error(series: MeasuredSeries) -> FitError | None:
    """How wrong a table is between its points: every inner point left out in turn and interpolated.

    The gap around a point left out is twice as wide as any gap of the table itself, so the table is better
    than this. ``None`` with fewer than three points.
    """
    xs, times_ns = series.xs, series.medians_ns
    errors = []
    for at in range(1, len(xs) - 1):
        rest = TableTime(tokens=xs[:at] + xs[at + 1 :], times_ns=times_ns[:at] + times_ns[at + 1 :])
        errors.append(curve_error(rest, xs[at : at + 1], times_ns[at : at + 1]).largest)
    if not errors:
        return None
    return FitError(mean=sum(errors) / len(errors), largest=max(errors))


def curve_of(series: MeasuredSeries) -> TimeCurve:
    """The curve a cost model takes: a line where it is right within 5 % everywhere, else the table."""
    line = fit_line(series.xs, series.medians_ns)
    # Two points always lie on a line, which then would say nothing about the sizes between.
    if len(series.points) > 2 and line_error(series).largest <= LINE_TOLERANCE:
        return line
    return TableTime(tokens=series.xs, times_ns=series.medians_ns)
