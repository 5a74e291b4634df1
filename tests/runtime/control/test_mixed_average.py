"""Residency by averages of several spans: near before far, often before rarely, lately before long ago."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prescope.runtime.control.mixed_average import MixedAverageResidency
from prescope.runtime.control.residency import make_residency


def used(expert):
    return np.eye(3, dtype=np.int64)[expert]


def test_the_near_and_the_likely_are_worth_more():
    residency = MixedAverageResidency(np.array([[0.5, 0.1, 0.5], [0.5, 0.5, 0.5], [0.5, 0.5, 0.5]]))
    scores = residency.scores(0)
    assert scores[1, 0] > scores[2, 0] > scores[0, 0] > scores[0, 1]
    assert residency.scores(2)[0, 0] > residency.scores(2)[1, 0]


def test_both_habit_and_the_last_steps_count():
    residency = MixedAverageResidency(np.full((1, 3), 1 / 3))
    for _ in range(300):
        residency.observe(0, used(0))
    for _ in range(4):
        residency.observe(0, used(1))
    scores = residency.scores(0)[0]
    # Four uses in a row do not make up for three hundred, but for any number of none.
    assert scores[0] > scores[1] > scores[2]


@given(popularity=st.lists(st.floats(0, 1), min_size=6, max_size=6), seed=st.integers(0, 1000))
def test_scores_stay_finite_and_keep_their_shape(popularity, seed):
    residency = make_residency("mixed-average", np.array(popularity).reshape(2, 3), rows=4, scratch=1)
    random = np.random.default_rng(seed)
    for step in range(30):
        residency.observe(step % 2, random.integers(0, 3, 3) * (step % 7 != 0))
        scores = residency.scores(step % 2)
        assert scores.shape == (2, 3)
        assert np.isfinite(scores).all() and (scores < 0).all()
    assert residency.quota(4) is None


def test_a_steady_use_is_learned():
    residency = MixedAverageResidency(np.full((1, 3), 0.01))
    for _ in range(500):
        residency.observe(0, used(2))
    # Used in every step: the next use is one round away.
    assert residency.scores(0)[0, 2] == pytest.approx(-1.0, abs=0.15)
