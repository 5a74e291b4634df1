"""When planned and measured times drift apart, this is said once; and once when they come together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prescope.runtime.profile import DriftMonitor

ratios = st.lists(st.floats(0.2, 5.0), max_size=120)


def feed(monitor: DriftMonitor, *percent: int) -> list[tuple[int, bool]]:
    """Observe steps that take so many percent of the plan; (position, recovered) of every event."""
    events = [(at, monitor.observe(100, value)) for at, value in enumerate(percent)]
    return [(at, event.recovered) for at, event in events if event is not None]


def test_nothing_is_said_before_the_window_is_full_or_within_the_threshold() -> None:
    monitor = DriftMonitor(window=5)
    assert feed(monitor, 300, 300, 300, 300) == []
    assert monitor.ratio is None and not monitor.drifting
    assert feed(DriftMonitor(window=5), *[119, 81, 100, 120, 84] * 20) == []


@pytest.mark.parametrize("percent", [121, 83, 400, 10])
def test_drift_is_said_once_either_way(percent: int) -> None:
    monitor = DriftMonitor(window=5)
    assert feed(monitor, *[100] * 5, *[percent] * 50) == [(7, False)]
    assert monitor.drifting and monitor.ratio == percent / 100


def test_a_few_odd_steps_are_no_drift() -> None:
    assert feed(DriftMonitor(window=5), *[100, 900, 100, 900, 100] * 10, *[100] * 5) == []


def test_between_the_thresholds_nothing_is_said_however_often_it_changes() -> None:
    monitor = DriftMonitor(window=1)
    assert feed(monitor, 125, 115, 125, 112, 121, 119) == [(0, False)]
    assert feed(monitor, 109, 115, 119, 91, 84) == [(0, True)]
    assert feed(monitor, 82, 90, 92) == [(0, False), (2, True)]


@given(ratios, st.integers(1, 9), st.floats(0.05, 1.0))
def test_events_alternate_and_agree_with_the_median(values: list[float], window: int, limit: float) -> None:
    monitor = DriftMonitor(threshold=limit, window=window)
    expected = False
    for value in values:
        before = monitor.drifting
        event = monitor.observe(10**6, round(value * 10**6))
        assert (event is not None) == (monitor.drifting != before)
        if event is not None:
            expected = not expected
            assert event.recovered is not expected
            apart = max(event.ratio, 1 / event.ratio)
            assert apart <= 1 + limit / 2 + 1e-9 if event.recovered else apart > 1 + limit - 1e-9
        assert monitor.drifting == expected


def test_steps_without_a_plan_do_not_count_and_reset_forgets() -> None:
    monitor = DriftMonitor(window=2)
    assert monitor.observe(0, 500) is None
    assert feed(monitor, 200, 200) == [(1, False)]
    monitor.reset()
    assert not monitor.drifting and monitor.ratio is None
    assert feed(monitor, 200, 200) == [(1, False)]


def test_messages_say_how_far_and_what_to_do() -> None:
    monitor = DriftMonitor(window=1)
    event = monitor.observe(100, 150)
    assert event is not None and event.steps == 1
    assert "1.50 times the planned time" in event.message and "prescope profile" in event.message
    back = monitor.observe(100, 100)
    assert back is not None and "costs fit" in back.message


def test_wrong_settings_are_refused() -> None:
    for threshold in (0, 0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="threshold"):
            DriftMonitor(threshold=threshold)
    with pytest.raises(ValueError, match="window"):
        DriftMonitor(window=0)
    with pytest.raises(ValueError, match="measured_ns"):
        DriftMonitor().observe(1, -1)
