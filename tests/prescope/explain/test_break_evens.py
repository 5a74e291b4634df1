"""Where device and host change places: searched, planned again, and in words."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prescope.explain import ExplainSettings, explain_expert
from prescope.explain.break_even import (
    BreakEven,
    Lever,
    _scaled,
    _whole,
    device_wins,
    with_host,
    with_link,
    with_tokens,
)
from prescope.explain.words import _break_even
from prescope.instances import synthetic_instance
from prescope.solver import solve


@pytest.mark.parametrize("seed", [3, 5, 8, 13])
def test_break_evens_hold_when_planned_again(seed: int) -> None:
    instance = replace(synthetic_instance("mixtral-8x7b", "a100-pcie4", 8, seed), lookahead=4)
    plan = solve(instance, method="dp-fast").plan
    assert plan is not None
    layer = 15 + seed
    expert = (*plan.layers[layer].cpu, *plan.layers[layer].gpu)[0]
    settings_ = ExplainSettings(effort=20_000)
    found = explain_expert(instance, plan, layer, expert, settings_)
    changed = {
        "tokens": lambda value: with_tokens(instance, layer, expert, round(value)),
        "link bytes/s": lambda value: with_link(instance, value / instance.costs.link.bytes_per_s),
        "host speed": lambda value: with_host(instance, value),
    }
    assert any(one.found for one in found.break_evens)
    for one in found.break_evens:
        if one.device_from is None or one.host_from is None:
            assert one.device_from is one.host_from is None
            continue
        for value, wins in ((one.device_from, True), (one.host_from, False)):
            assert (
                device_wins(changed[one.lever.value](value), layer, expert, plan=plan, effort=20_000) is wins
            )
        assert abs(one.device_from - one.host_from) <= max(1, 0.01 * one.now * 16)


@given(st.integers(1, 60), st.sets(st.integers(1, 60)), st.integers(1, 60))
@settings(max_examples=200, deadline=None)
def test_a_change_of_tokens_is_one_and_the_first_where_there_is_one(
    now: int, wins: set[int], first: int
) -> None:
    found = _whole(now, 60, wins.__contains__)
    if found.device_from is not None and found.host_from is not None:
        assert found.device_from in wins and found.host_from not in wins
        assert abs(found.device_from - found.host_from) == 1
    else:
        # What lies one away is always seen.
        assert all((near in wins) == (now in wins) for near in (now - 1, now + 1) if 1 <= near <= 60)
    only = _whole(now, 60, lambda tokens: tokens >= first)
    change = (None, None) if first == 1 else (first, first - 1)
    assert (only.device_from, only.host_from) == change


def test_the_nearest_change_is_said_where_it_changes_back() -> None:
    found = _whole(3, 60, lambda tokens: 5 <= tokens <= 6 or tokens == 50)
    assert (found.device_from, found.host_from) == (5, 4)
    for wins in (lambda factor: 1.7 < factor < 5, lambda factor: factor > 1.7):
        scaled = _scaled(Lever.LINK, 10.0, wins)
        assert scaled.device_from is not None and scaled.host_from is not None
        assert 17 - 0.2 < scaled.host_from <= 17 < scaled.device_from < 17 + 0.2
        assert (scaled.low, scaled.high) == (10 / 16, 160)
    slower = _scaled(Lever.HOST, 1, lambda factor: factor < 0.1 or factor > 9)
    assert slower.device_from == pytest.approx(9, rel=0.01)
    slower = _scaled(Lever.HOST, 1, lambda factor: factor < 0.1)
    assert slower.device_from == pytest.approx(0.1, rel=0.01) and slower.found
    assert not _scaled(Lever.HOST, 1, lambda factor: factor > 16).found


@pytest.mark.parametrize(
    ("lever", "now", "device_from", "host_from", "says"),
    [
        (Lever.TOKENS, 3, 7, 6, "The CPU begins to lose at 7 tokens (3 tokens now)."),
        (Lever.TOKENS, 7, 7, 6, "The CPU no longer loses at 6 tokens (7 tokens now)."),
        (Lever.TOKENS, 2, 2, 1, "The CPU no longer loses at 1 token (2 tokens now)."),
        (Lever.LINK, 24e9, 14e9, 14.1e9, "A copy begins to pay with a link of 14 GB/s (24 GB/s now)."),
        (Lever.LINK, 24e9, 14.1e9, 14e9, "A copy no longer pays with a link of 14 GB/s (24 GB/s now)."),
        (Lever.HOST, 1, 12.0, 11.9, "The CPU begins to lose with 12 times its speed."),
        (Lever.HOST, 1, 1.9, 2.0, "The CPU no longer loses with 2 times its speed."),
    ],
)
def test_what_would_change_it_in_words(
    lever: Lever, now: float, device_from: float, host_from: float, says: str
) -> None:
    one = BreakEven(
        lever=lever, now=now, device_from=device_from, host_from=host_from, low=now / 16, high=now * 16
    )
    assert _break_even(one) == says
