"""The statistics against their definitions, and summaries of rows made by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prescope.bench import BenchRow, Kind, RowStatus, markdown_report, summarise, violations
from prescope.bench.statistics import (
    percentile,
    performance_profile,
    primal_integral_ns,
    shifted_geometric_mean,
)
from prescope.bench.summary import incumbents, ratios
from prescope.bench.tables import troubles

ROW = BenchRow(
    set="set",
    instance="a",
    instance_sha256="",
    layers=1,
    experts=2,
    tokens=1,
    method="one",
    seed=0,
    limit="default",
    kind=Kind.PLANNED,
    status=RowStatus.FEASIBLE,
    makespan_ns=1100,
    lower_bound_ns=1000,
    own_bound_ns=1000,
    best_known_ns=1050,
    plan_time_ns=10,
    prescope="1",
    python="3",
    ortools="9",
    numba="0",
    numpy="2",
    machine="m",
)
times = st.lists(st.integers(1, 10**10), min_size=1, max_size=20)


@given(times)
def test_shifted_geometric_mean_lies_between_geometric_and_arithmetic(values: list[int]) -> None:
    found = shifted_geometric_mean(values)
    geometric = math.exp(np.mean(np.log(values)))
    assert geometric * (1 - 1e-6) - 1e-3 <= found <= np.mean(values) * (1 + 1e-6) + 1e-3
    assert shifted_geometric_mean(values, 1e-9) == pytest.approx(geometric, rel=1e-6)


@given(times)
def test_percentile_is_a_value_that_so_many_do_not_exceed(values: list[int]) -> None:
    found = percentile(values, 99)
    assert found in values
    assert sum(value <= found for value in values) >= 0.99 * len(values)
    assert sum(value < found for value in values) < 0.99 * len(values)
    smaller = [value for value in values if value < found]
    assert len(smaller) < 0.99 * len(values)


@given(st.lists(st.floats(1, 10) | st.just(math.inf), min_size=1, max_size=20))
def test_a_profile_counts_and_never_falls(found: list[float]) -> None:
    factors = [1.0, 1.5, 3.0, 10.0]
    profile = performance_profile(found, factors)
    assert profile == [sum(ratio <= factor for ratio in found) / len(found) for factor in factors]
    assert profile == sorted(profile)


@given(
    st.lists(st.tuples(st.integers(0, 1000), st.integers(100, 1000)), max_size=8),
    st.integers(100, 1000),
    st.integers(1, 1000),
)
def test_primal_integral_is_the_area_by_steps_of_one(
    found: list[tuple[int, int]], reference: int, horizon: int
) -> None:
    ordered = sorted(found)
    area = 0.0
    for now in range(horizon):
        here = [made for time, made in ordered if time <= now]
        area += max(here[-1] - reference, 0) / here[-1] if here else 1.0
    assert primal_integral_ns(ordered, reference, horizon) == pytest.approx(area)


def test_a_shifted_geometric_mean_by_hand() -> None:
    # (1 + 1) (17 + 1) = 6 x 6, with a shift of one.
    assert shifted_geometric_mean([1, 17], 1) == pytest.approx(5)
    assert shifted_geometric_mean([0, 8_000_000]) == pytest.approx(2_000_000)


def test_a_method_without_a_plan_is_within_no_factor() -> None:
    failed = replace(ROW, method="two", status=RowStatus.NO_PLAN, makespan_ns=None, gap_to_bound=None)
    elsewhere = replace(failed, instance="b")
    found = ratios([ROW, failed, elsewhere])
    assert found == {"one": [1.0], "two": [math.inf]}
    assert performance_profile(found["two"], [1.0, 1e9]) == [0.0, 0.0]


def test_nothing_is_nothing() -> None:
    assert percentile([], 99) is None and shifted_geometric_mean([]) is None
    assert performance_profile([], [1.0]) == [0.0]
    assert primal_integral_ns([], 5, 7) == 7
    assert summarise([]) == [] and violations([]) == [] and ratios([]) == {}


def test_a_summary_counts_what_it_is_given() -> None:
    rows = [
        ROW,
        replace(ROW, instance="b", makespan_ns=1000, status=RowStatus.OPTIMAL, best_known_ns=None),
        replace(ROW, instance="c", makespan_ns=None, status=RowStatus.NO_PLAN, plan_time_ns=None),
        replace(ROW, instance="d", makespan_ns=None, status=RowStatus.ERROR, error="x", plan_time_ns=None),
        replace(ROW, limit="1s", makespan_ns=1050),
        replace(ROW, method="two", kind=Kind.FOLLOWED),
    ]
    one, limited, two = summarise(rows)
    assert (one.method, limited.method, two.method) == ("one", "one@1s", "two (followed)")
    assert (one.runs, one.without_plan, one.errors, one.violations, one.optimal) == (4, 1, 1, 0, 1)
    assert (one.proved, limited.proved) == (1, 0)
    assert one.gap_to_bound_mean == pytest.approx(0.05) and one.gap_to_bound_max == pytest.approx(0.1)
    assert one.gap_to_best_mean == pytest.approx(1100 / 1050 - 1) == one.gap_to_best_max
    assert one.share_max == pytest.approx(10 / 1000)
    assert limited.gap_to_best_mean == 0.0 and limited.primal_integral_sgm_ns is None
    assert ratios(rows)["one"] == [pytest.approx(1100 / 1050), 1.0]


def test_the_best_bound_of_any_row_counts_and_beating_it_is_shouted() -> None:
    other = replace(ROW, method="two", lower_bound_ns=1200, makespan_ns=1300, lower_bound_by="two's proof")
    found = violations([ROW, other])
    assert [row.method for row in found] == ["one"]
    assert summarise([ROW, other])[0].violations == 1
    assert any("BOUND VIOLATED: one" in text for text in troubles([ROW, other], found))
    assert "**BOUND VIOLATED: one" in markdown_report([ROW, other])
    broken = replace(ROW, method="three", makespan_ns=None, status=RowStatus.ERROR, error="Oops: no")
    assert "**BROKEN: three" in markdown_report([broken])
    again = [replace(broken, instance=name, error="x" * 1000) for name in "bcd"]
    (text,) = troubles(again, [])
    assert "on b and 2 more runs: xxx" in text and len(text) < 600


def test_anytime_solvers_have_an_integral_up_to_the_longest_time() -> None:
    anytime = replace(ROW, makespan_ns=1000, incumbents="4:2000 10:1000", best_known_ns=1000)
    longest = replace(ROW, method="slow", plan_time_ns=20, best_known_ns=1000)
    first, second = summarise([anytime, longest])
    assert first.primal_integral_sgm_ns == pytest.approx(4 + 6 * 0.5, rel=1e-6)
    assert second.primal_integral_sgm_ns is None
    assert incumbents(longest) == [(20, 1100)] and incumbents(anytime) == [(4, 2000), (10, 1000)]
    assert "primal integral" in markdown_report([anytime, longest])
