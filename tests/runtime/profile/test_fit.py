"""Lines and tables: what they get wrong, and which one is taken."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from prescope.formulation import LinearTime, TableTime
from prescope.instances import MeasuredPoint, MeasuredSeries
from prescope.runtime.profile import curve_of, fit_line, line_error, table_error
from prescope.runtime.profile.fit import curve_error

sizes = st.lists(st.integers(1, 1000), min_size=2, max_size=10, unique=True).map(sorted)


def series(xs: list[int], times_ns: list[int]) -> MeasuredSeries:
    points = tuple(
        MeasuredPoint(x=x, median_ns=ns, low_ns=ns, high_ns=ns, repeats=3)
        for x, ns in zip(xs, times_ns, strict=True)
    )
    return MeasuredSeries(kind="expert", label="test", workers=1, points=points)


def squares(line: LinearTime, xs: list[int], times_ns: list[int]) -> float:
    values = [line.fixed_ns + line.per_token_ns * x for x in xs]
    return sum((value / ns - 1) ** 2 for value, ns in zip(values, times_ns, strict=True))


@given(sizes, st.integers(1000, 10**9), st.integers(0, 10**6))
def test_a_line_is_found_again(xs: list[int], fixed_ns: int, per_token_ns: int) -> None:
    times = [fixed_ns + per_token_ns * x for x in xs]
    line = fit_line(xs, times)
    assert curve_error(line, xs, times).largest < 1e-3
    assert line_error(series(xs, times)).largest < 1e-3


@given(sizes, st.data())
def test_no_other_allowed_line_has_smaller_relative_errors(xs: list[int], data: st.DataObject) -> None:
    times = data.draw(st.lists(st.integers(10**4, 10**9), min_size=len(xs), max_size=len(xs)))
    line = fit_line(xs, times)
    assert line.fixed_ns >= 0 and line.per_token_ns >= 0
    best = squares(line, xs, times)
    fixed_step, slope_step = max(10.0, line.fixed_ns / 50), max(1.0, line.per_token_ns / 50)
    for fixed in (-fixed_step, 0.0, fixed_step):
        for slope in (-slope_step, 0.0, slope_step):
            fixed_ns, per_token_ns = line.fixed_ns + fixed, line.per_token_ns + slope
            if fixed_ns >= 0 and per_token_ns >= 0:
                other = LinearTime(fixed_ns=round(fixed_ns), per_token_ns=per_token_ns)
                assert squares(other, xs, times) >= best * (1 - 1e-3) - 1e-6


def test_falling_times_give_a_flat_line_and_steep_ones_no_fixed_part() -> None:
    assert fit_line([1, 2, 3], [30_000, 20_000, 10_000]).per_token_ns == 0
    assert fit_line([1, 10, 100], [1_000, 30_000, 900_000]).fixed_ns == 0
    with pytest.raises(ValueError, match="at least one point"):
        fit_line([], [])


def test_a_table_is_judged_by_points_it_does_not_know() -> None:
    measured = series([1, 2, 3, 5], [100, 200, 400, 400])
    # Without x=2: halfway between 100 and 400 is 250, without x=3: 200 + 200 / 3 = 267.
    error = table_error(measured)
    assert error is not None
    assert error.largest == pytest.approx(133 / 400)
    assert error.mean == pytest.approx((50 / 200 + 133 / 400) / 2)
    assert table_error(series([1, 2], [5, 9])) is None


@given(sizes, st.integers(10**5, 10**9), st.integers(10**3, 10**6))
def test_a_straight_table_has_no_error_between_its_points(xs: list[int], fixed_ns: int, slope: int) -> None:
    assume(len(xs) > 2)
    error = table_error(series(xs, [fixed_ns + slope * x for x in xs]))
    assert error is not None and error.largest < 1e-4


def test_a_line_is_taken_where_it_is_right_everywhere() -> None:
    line = curve_of(series([1, 2, 4, 8], [1010, 1020, 1040, 1080]))
    assert isinstance(line, LinearTime) and line(8) == pytest.approx(1080, rel=0.01)
    flat_then_steep = series([1, 16, 32, 64], [1000, 1000, 2000, 4000])
    assert curve_of(flat_then_steep) == TableTime(tokens=(1, 16, 32, 64), times_ns=(1000, 1000, 2000, 4000))
    # Any two points lie on a line, which proves nothing.
    assert isinstance(curve_of(series([1, 8], [10, 80])), TableTime)
