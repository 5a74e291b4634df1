"""Learned retention: the fit, what it predicts, and fitting again while it runs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_horizons import plan_step, tiny_horizon

from prescope.formulation.horizon_evaluator import evaluate_horizon
from prescope.solver.residency import (
    Learned,
    MovingAverage,
    Static,
    horizon_bound,
    run_horizon,
    untrained_rule,
)
from prescope.solver.residency.outlook_model import Inputs, OutlookSettings, OutlookSums, fit_outlook, use_of
from prescope.solver.residency.refit import Refit

LAYERS, EXPERTS = 2, 5
START = np.full((LAYERS, EXPERTS), 2 / EXPERTS)
COSTS = {"fixed_ns": 100.0, "per_token_ns": 10.0}
SETTINGS = OutlookSettings(ahead=3, discount=0.5)


def sequence(seed, steps=40):
    """Expert 0 is used every other step, the others by chance."""
    rng = np.random.default_rng(seed)
    counts = np.zeros((steps, LAYERS, EXPERTS), dtype=np.int64)
    for step in range(steps):
        for layer in range(LAYERS):
            counts[step, layer, rng.choice(np.arange(1, EXPERTS), size=2 - step % 2, replace=False)] = 1
            counts[step, layer, 0] = step % 2
    return counts


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 20))
def test_one_step_at_a_time_comes_to_the_same_as_all_at_once(seed, steps):
    counts = sequence(seed, steps)
    at_once = fit_outlook([counts], START, SETTINGS)
    slowly, inputs = OutlookSums(LAYERS, EXPERTS, SETTINGS), Inputs(START)
    for step in counts:
        use = use_of(step, START)
        slowly.observe(inputs.rows(), use)
        inputs.observe(use)
    assert at_once.weight == slowly.weight == max(0, steps - SETTINGS.ahead + 1)
    if at_once.weight:
        assert np.allclose(at_once.solve(), slowly.solve(), atol=1e-6)
    else:
        with pytest.raises(ValueError, match="known future"):
            slowly.solve()


def test_it_sees_a_pattern_that_an_average_cannot():
    sums = fit_outlook([sequence(seed) for seed in range(8)], START, OutlookSettings(ahead=1, discount=0.0))
    rule = Learned(START, sums, **COSTS)
    for step, counts in enumerate(sequence(99, 20)):
        rule.observe(counts)
        coming = rule.expected_use()[:, 0]
        assert (coming > 0.9).all() if step % 2 == 0 else (coming < 0.1).all()
    worth = rule.scores()
    use = rule.expected_use()
    assert np.allclose(worth, 100 * use + 10 * use)


def test_the_synchronous_twin_and_the_thread_learn_the_same():
    offline = fit_outlook([sequence(0)], START, SETTINGS)
    with (
        Refit(offline, every=10, background=False) as now,
        Refit(offline, every=10) as later,
    ):
        here, there = (
            Learned(START, offline, **COSTS, refit=now),
            Learned(START, offline, **COSTS, refit=later),
        )
        steps = sequence(1, 31)
        for counts in steps[:30]:
            here.observe(counts)
            there.observe(counts)
            if later._running is not None:
                later._running.result(timeout=30)
        there.observe(steps[30])
        here.observe(steps[30])
        assert now.fits == later.fits == 3
        assert np.array_equal(here.scores(), there.scores())
    alone = Learned(START, offline, **COSTS)
    for counts in steps:
        alone.observe(counts)
    assert not np.allclose(alone.scores(), here.scores())
    # The sums of the offline fit are not touched.
    assert offline.weight == 38


def test_a_fit_that_fails_leaves_the_model(caplog):
    offline = fit_outlook([sequence(0)], START, SETTINGS)
    with Refit(offline, every=1) as refit:
        old = offline.solve()
        refit._running = refit._pool.submit(lambda: 1 / 0)
        assert refit._running.exception(timeout=30) is not None
        assert refit.latest(old) is old
    assert "fitted before" in caplog.text


def test_its_horizons_are_feasible():
    for seed in range(6):
        horizon = tiny_horizon(seed, 5)
        start = np.full((horizon.layers, horizon.experts), 1.0)
        steps = np.stack([demand.counts for demand in horizon.demands])
        sums = fit_outlook([steps], start, OutlookSettings(ahead=2))
        plan = run_horizon(horizon, Learned(start, sums, **COSTS), plan_step)
        assert evaluate_horizon(horizon, plan).total_ns >= horizon_bound(horizon)[0]


def test_without_a_model_large_batches_stay_as_they_are():
    assert isinstance(untrained_rule(START, tokens=16, **COSTS), Static)
    assert isinstance(untrained_rule(START, tokens=8, **COSTS), MovingAverage)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"discount": 1.0}, "discount"), ({"ahead": 0}, "ahead"), ({"penalty": 0.0}, "penalty")],
)
def test_wrong_settings_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        OutlookSettings(**changes)


def test_neighbours_are_averages_of_the_layers_beside_as_known_at_the_gate():
    start = np.full((4, EXPERTS), 2 / EXPERTS)
    alone, beside = Inputs(start), Inputs(start, neighbours=1)
    halves = []
    for step in range(3):
        use = np.random.default_rng(step).random(start.shape)
        alone.observe(use)
        beside.observe(use)
        halves.append(alone.rows()[:, EXPERTS : 2 * EXPERTS])
    own, rows, (older, now) = alone.rows(), beside.rows(), halves[-2:]
    assert rows.shape == (4, OutlookSettings(neighbours=1).width(EXPERTS))
    assert (rows[:, : own.shape[1] - 1] == own[:, :-1]).all() and (rows[:, -1] == 1).all()
    before, after = np.split(rows[:, own.shape[1] - 1 : -1], 2, axis=1)
    # Layer 0 comes after the last one, which spoke a step ago; to the last one it has spoken already.
    assert (before == np.stack([older[3], now[0], now[1], now[2]])).all()
    assert (after == np.stack([older[1], older[2], older[3], now[0]])).all()


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 4), st.integers(0, 7))
def test_no_layer_looks_at_gates_that_have_not_spoken(seed, layer, neighbours):
    random = np.random.default_rng(seed)
    start, steps = random.random((5, 3)), random.random((3, 5, 3))
    other = steps.copy()
    other[-1, layer + 1 :] = random.random((4 - layer, 3))
    rows = []
    for uses in (steps, other):
        inputs = Inputs(start, neighbours)
        for use in uses:
            inputs.observe(use)
        rows.append(inputs.rows()[: layer + 1])
    assert (rows[0] == rows[1]).all()


def test_neighbours_tell_what_a_layer_alone_cannot():
    # Layer 1 does tomorrow what layer 0 does today; layer 0 draws.
    random = np.random.default_rng(0)
    steps = np.zeros((400, 2, 4), dtype=np.int64)
    drawn = random.integers(0, 4, 401)
    steps[np.arange(400), 0, drawn[1:]] = 1
    steps[np.arange(400), 1, drawn[:-1]] = 1
    start = np.full((2, 4), 0.25)
    misfits = []
    for neighbours in (0, 1):
        settings = OutlookSettings(ahead=1, discount=0.0, neighbours=neighbours)
        rule = Learned(start, fit_outlook([steps[:300]], start, settings), **COSTS)
        miss = 0.0
        for now, then in zip(steps[300:-1], steps[301:], strict=True):
            rule.observe(now)
            miss += float(((rule.expected_use() - then)[1] ** 2).sum())
        misfits.append(miss)
    assert misfits[1] < 0.2 * misfits[0]
