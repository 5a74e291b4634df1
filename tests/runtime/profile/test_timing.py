"""Rounds, budgets and quartiles, with a clock that only the work moves."""

import pytest
from fake_time import FakeClock
from hypothesis import given
from hypothesis import strategies as st

from prescope.runtime.profile.timing import Effort, Probe, measure, point_of, timed

durations = st.lists(st.integers(0, 10**12), min_size=1, max_size=40)


def probe(clock: FakeClock, x: int, *ns: int, log: list[int] | None = None) -> Probe:
    """Takes the given times in turn, the last one ever after."""
    left = list(ns)

    def work() -> None:
        clock.advance(left.pop(0) if len(left) > 1 else left[0])
        if log is not None:
            log.append(x)

    return Probe(x=x, run=timed(work, clock))


def test_rounds_take_every_size_in_turn_and_the_first_one_does_not_count() -> None:
    clock, log = FakeClock(), []
    probes = [probe(clock, 1, 900, 10, log=log), probe(clock, 2, 900, 20, log=log)]
    (points,) = measure(probes, effort=Effort(repeats=4, budget_ns=10**9), clock=clock)
    assert log == [1, 2] * 5
    assert [(point.x, point.median_ns, point.high_ns, point.repeats) for point in points] == [
        (1, 10, 10, 4),
        (2, 20, 20, 4),
    ]


@pytest.mark.parametrize(("budget_ns", "rounds"), [(0, 3), (350, 4), (449, 5), (10**9, 9)])
def test_no_round_begins_after_the_budget_but_three_are_made(budget_ns: int, rounds: int) -> None:
    clock = FakeClock()
    effort = Effort(repeats=9, budget_ns=budget_ns)
    (points,) = measure([probe(clock, 1, 100)], effort=effort, clock=clock)
    assert points[0].repeats == rounds


def test_parts_become_series_of_their_own() -> None:
    runs = [Probe(x=x, run=lambda x=x: (x, 10 * x)) for x in (1, 3)]
    first, second = measure(runs, effort=Effort(repeats=3, budget_ns=0), clock=FakeClock())
    assert [point.median_ns for point in first] == [1, 3]
    assert [point.median_ns for point in second] == [10, 30]


@given(durations)
def test_quartiles_are_measured_values_around_the_median(values: list[int]) -> None:
    point = point_of(7, values)
    assert point.low_ns <= point.median_ns <= point.high_ns
    assert {point.low_ns, point.median_ns, point.high_ns} <= set(values)
    assert sum(value <= point.median_ns for value in values) >= len(values) / 2
    assert sum(value >= point.median_ns for value in values) >= len(values) / 2
    assert 4 * sum(point.low_ns <= value <= point.high_ns for value in values) >= 2 * len(values)


def test_what_cannot_be_measured_is_refused() -> None:
    effort = Effort(repeats=3, budget_ns=0)
    with pytest.raises(ValueError, match="at least one probe, got none"):
        measure([], effort=effort)
    with pytest.raises(ValueError, match=r"equally many parts from every probe, got \[1, 2\]"):
        measure([Probe(x=1, run=lambda: (1,)), Probe(x=2, run=lambda: (1, 2))], effort=effort)
    with pytest.raises(ValueError, match=r"expected repeats in \[3, inf\], got 2"):
        Effort(repeats=2, budget_ns=0)
