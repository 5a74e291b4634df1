"""Maps that make probabilities mean what they say, on outcomes drawn from known ones."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from prescope.predictor.calibration import (
    ANCHORS,
    EVENT_KNOTS,
    EmulatedBatches,
    EventCurves,
    apply_token_map,
    batch_load,
    batch_probability,
    batch_share,
    fit_batch_event,
    fit_event_curves,
    fit_token_map,
)
from prescope.predictor.calibration.token_map import HIGHEST, KNOTS, LOWEST
from prescope.predictor.evaluation import adaptive_ece

SCORES = hnp.arrays(np.float64, st.integers(1, 200), elements=st.floats(-3, 3))


@settings(max_examples=50)
@given(SCORES, st.randoms())
def test_a_token_map_never_falls_and_stays_inside(score, rng):
    chosen = np.array([rng.random() < 0.3 for _ in score])
    knots = fit_token_map(score, chosen)
    assert knots.shape == (KNOTS,)
    assert (np.diff(knots) >= 0).all()
    plain = np.interp(score, np.linspace(LOWEST, HIGHEST, KNOTS), knots)
    assert apply_token_map(knots, score) == pytest.approx(plain, abs=1e-5)
    assert (0 < plain).all()
    assert (plain < 1).all()


def test_a_token_map_finds_the_curve():
    rng = np.random.default_rng(0)
    score = rng.random(200_000)
    truth = 1 / (1 + np.exp(-8 * (score - 0.6)))
    knots = fit_token_map(score, rng.random(score.shape) < truth)
    assert np.abs(apply_token_map(knots, score) - truth).max() < 0.03
    fresh = rng.random(50_000)
    happened = rng.random(fresh.shape) < 1 / (1 + np.exp(-8 * (fresh - 0.6)))
    assert adaptive_ece(apply_token_map(knots, fresh), happened) < 0.01
    assert adaptive_ece(fresh, happened) > 0.05


@given(hnp.arrays(np.float64, st.tuples(st.integers(1, 40), st.just(3)), elements=st.floats(0, 1)))
def test_without_correction_tokens_are_independent(probability):
    load = batch_load(probability)
    plain = 1 - np.prod(1 - probability, axis=0)
    assert batch_probability(load, len(probability), np.zeros(2)) == pytest.approx(plain, abs=1e-5)
    # One token needs no correction, whatever it is.
    assert batch_probability(batch_load(probability[:1]), 1, np.array([3.0, 2.0])) == pytest.approx(
        probability[0], abs=1e-5
    )


def test_a_correction_learns_how_tokens_go_together():
    rng = np.random.default_rng(1)
    loads, shares, happened = [], [], []
    for tokens in (2, 8, 32):
        for _ in range(1500):
            rate = np.full((tokens, 20), 0.08)
            # Half of the tokens copy the first one's choice.
            draw = rng.random(rate.shape) < rate
            draw[: tokens // 2] = draw[0]
            loads.append(batch_load(rate))
            shares.append(np.full(20, batch_share(tokens)))
            happened.append(draw.any(axis=0))
    load, share, truth = map(np.concatenate, (loads, shares, happened))
    correction = fit_batch_event(load, share, truth)
    for tokens in (8, 32):
        rate = 0.08
        one = batch_load(np.full((tokens, 1), rate))
        real = 1 - (1 - rate) ** (tokens - tokens // 2 + 1)
        assert batch_probability(one, tokens, correction)[0] == pytest.approx(real, abs=0.03)
        assert batch_probability(one, tokens, np.zeros(2))[0] > real + 0.03


def test_independent_tokens_need_no_correction():
    rng = np.random.default_rng(2)
    load = rng.exponential(1.0, 20_000)
    truth = rng.random(load.shape) < 1 - np.exp(-load)
    assert fit_batch_event(load, np.ones_like(load), truth) == pytest.approx([0, 0], abs=0.03)


@pytest.mark.parametrize("outcome", [True, False])
def test_one_sided_outcomes_leave_finite_numbers(outcome):
    load = np.full(50, 0.7)
    correction = fit_batch_event(load, np.ones(50), np.full(50, outcome))
    assert np.isfinite(correction).all()
    assert (batch_probability(load, 32, correction) > 0.8).all() == outcome
    assert fit_batch_event(np.zeros(0), np.zeros(0), np.zeros(0, bool)) == pytest.approx([0, 0])


def test_what_cannot_be_fitted_is_refused():
    with pytest.raises(ValueError, match="expected finite scores"):
        fit_token_map(np.array([np.nan]), np.array([True]))
    with pytest.raises(ValueError, match="expected finite scores"):
        fit_token_map(np.zeros(0), np.zeros(0, bool))
    with pytest.raises(ValueError, match="three equally long"):
        fit_batch_event(np.zeros(2), np.zeros(3), np.zeros(2, bool))


def test_no_change_is_independence_and_one_token_is_never_changed():
    rng = np.random.default_rng(3)
    rows = rng.random((10, 4))
    none = EventCurves(changes=np.zeros((1, 1, len(ANCHORS), EVENT_KNOTS)))
    assert none.apply(0, 1, rows) == pytest.approx(1 - np.prod(1 - rows, axis=0), abs=1e-5)
    some = EventCurves(changes=np.full((1, 1, len(ANCHORS), EVENT_KNOTS), -0.2))
    assert some.apply(0, 1, rows[:1]) == pytest.approx(rows[0], abs=1e-5)
    # Half way, in logarithms, from one token to four.
    pair = some.apply(0, 1, rows[:2])
    assert pair == pytest.approx(1 - np.prod(1 - rows[:2], axis=0) - 0.1, abs=1e-5)
    assert some.apply(0, 1, np.zeros((0, 4))).tolist() == [0.0] * 4
    with pytest.raises(ValueError, match="expected finite changes of shape"):
        EventCurves(changes=np.zeros((1, 1, 2)))


def test_curves_learn_how_tokens_go_together():
    rng = np.random.default_rng(4)
    texts, length, experts = 256, 60, 20
    rate = rng.uniform(0.01, 0.3, experts)
    # At the same place in the text all sequences follow one of two moods.
    mood = rng.random((length, experts)) < 0.5
    chosen = rng.random((texts, length, experts)) < np.where(mood, 2 * rate, 0.0)
    probability = np.broadcast_to(rate, (texts * length, experts))
    batches = EmulatedBatches.of(np.repeat(np.arange(texts), length), ANCHORS)
    changes = fit_event_curves(batches, probability, chosen.reshape(-1, experts))
    curves = EventCurves(changes=changes[None, None])
    for tokens in (8, 32):
        said = curves.apply(0, 1, np.broadcast_to(rate, (tokens, experts)))
        real = 0.5 * (1 - (1 - 2 * rate) ** tokens)
        alone = 1 - (1 - rate) ** tokens
        assert np.abs(said - real).mean() < 0.05
        assert np.abs(alone - real).mean() > 0.15


def test_emulated_batches_step_different_sequences_together():
    sequence = np.repeat([3, 5, 9], [2, 3, 1])
    batches = EmulatedBatches.of(sequence, (2,))
    groups = np.split(batches.tokens, batches.starts[1:-1])
    assert [group.tolist() for group in groups] == [[0, 2], [1, 3], [4], [5]]
    load, happened, tokens = batches.events(np.full((6, 1), 0.5), np.eye(6, 1, dtype=bool))
    assert tokens.tolist() == [2, 2, 1, 1]
    assert load[:, 0] == pytest.approx(np.log(2) * tokens)
    assert happened[:, 0].tolist() == [True, False, False, False]
    empty = EmulatedBatches.of(np.zeros(0, dtype=np.int64), (2,))
    assert fit_event_curves(empty, np.zeros((0, 2)), np.zeros((0, 2), bool)).shape == (4, EVENT_KNOTS)
