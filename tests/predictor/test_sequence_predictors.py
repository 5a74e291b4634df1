"""Predictors that tell the sequences of a batch apart: what one did never reaches another."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prescope.predictor import (
    MovingAverage,
    PredictorContext,
    PreviousStep,
    TokenTable,
    make_predictor,
    predictors,
)
from prescope.predictor.rows import chosen_rows, forecast_from_rows
from prescope.predictor.sequence_memory import SequenceMemory

LAYERS, EXPERTS, TOP_K = 3, 5, 2
SHAPE = {"layers": LAYERS, "experts": EXPERTS, "top_k": TOP_K}


def ids(*rows):
    return torch.tensor(rows, dtype=torch.int64).reshape(-1, TOP_K)


def step(predictor, sequences, *rows, tokens=None):
    names = np.array(sequences, dtype=np.int64)
    known = None if tokens is None else np.array(tokens, dtype=np.int64)
    predictor.begin_step(len(sequences), sequences=names, token_ids=known)
    for layer in range(LAYERS):
        predictor.observe(layer, None, ids(*rows), None)


class PlainMemory:
    """What a sequence memory should hold, kept as lists of everything."""

    def __init__(self, prior, decays):
        self.prior, self.decays, self.seen = prior, decays, {}

    def observe(self, names, rows):
        for name, row in zip(names, rows, strict=True):
            self.seen.setdefault(name, []).append(row)

    def average(self, name, decay):
        value = self.prior.copy()
        for row in self.seen.get(name, []):
            value = decay * value
            value[list(row)] += 1 - decay
        return value


@given(
    steps=st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=6), min_size=1, max_size=8),
    seed=st.integers(0, 2**16),
)
def test_memory_is_the_history_of_each_sequence(steps, seed):
    rng = np.random.default_rng(seed)
    prior = rng.random((1, EXPERTS))
    memory = SequenceMemory(prior=prior, top_k=TOP_K, decays=(0.5, 0.9))
    plain = PlainMemory(prior[0], (0.5, 0.9))
    for names in [*steps, [0, 1, 2, 3, 4]]:
        memory.begin_step(len(names), np.array(names))
        last, _ = memory.last(0)
        for place, name in enumerate(names):
            for index, decay in enumerate(plain.decays):
                assert memory.averages(0)[index, place] == pytest.approx(plain.average(name, decay), abs=1e-6)
            wanted = plain.seen[name][-1] if name in plain.seen else (-1, -1)
            assert tuple(last[place]) == tuple(wanted)
        rows = [tuple(rng.permutation(EXPERTS)[:TOP_K]) for _ in names]
        memory.observe(0, np.array(rows), None)
        plain.observe(names, rows)


def test_memory_forgets_the_sequences_unused_for_longest_and_never_overflows():
    memory = SequenceMemory(prior=np.full((1, EXPERTS), 0.4), top_k=TOP_K, capacity=2)
    for name in (7, 8, 9):
        memory.begin_step(1, np.array([name]))
        memory.observe(0, np.array([[0, name % EXPERTS]]), None)
    memory.begin_step(4, np.array([9, 8, 7, 6]))
    assert memory.last(0)[0][:, 0].tolist() == [0, 0, -1, -1]
    memory.observe(0, np.array([[1, 2]] * 4), None)
    memory.begin_step(1, np.array([5]))
    assert memory.last(0)[0].tolist() == [[-1, -1]]


def test_a_moving_average_follows_its_own_sequence():
    predictor = MovingAverage(**SHAPE, decay=0.5)
    step(predictor, [10, 20], (0, 1), (3, 4))
    predictor.begin_step(3, sequences=np.array([20, 10, 30]))
    rows = predictor.predict_tokens(-1, 1)
    assert rows == pytest.approx(
        np.array([[0.2, 0.2, 0.2, 0.7, 0.7], [0.7, 0.7, 0.2, 0.2, 0.2], [0.4] * 5]), abs=1e-6
    )
    forecast = predictor.predict(-1, 1)
    assert forecast.expected_tokens == pytest.approx(rows.sum(axis=0))
    assert forecast.probability == pytest.approx(1 - (1 - rows).prod(axis=0), abs=1e-6)


def test_a_previous_step_repeats_each_sequences_own_token():
    predictor = PreviousStep(**SHAPE)
    step(predictor, [10, 20], (0, 1), (3, 4))
    predictor.begin_step(3, sequences=np.array([20, 30, 10]))
    wanted = [[0, 0, 0, 1, 1], [0.4] * 5, [1, 1, 0, 0, 0]]
    assert predictor.predict_tokens(0, 1) == pytest.approx(np.array(wanted))


def test_a_token_table_knows_tokens_not_sequences():
    predictor = TokenTable(**SHAPE, prior_tokens=1.0)
    step(predictor, [1, 2, 3], (0, 1), (0, 2), (3, 4), tokens=[50, 50, -1])
    predictor.begin_step(3, sequences=np.array([9, 9, 9]), token_ids=np.array([50, 60, -1]))
    known = (np.array([2, 1, 1, 0, 0]) + 0.4) / 3
    assert predictor.predict_tokens(0, 1) == pytest.approx(np.array([known, [0.4] * 5, [0.4] * 5]))
    predictor.begin_step(1)
    assert predictor.predict_tokens(-1, 3) == pytest.approx(np.full((1, EXPERTS), 0.4))


def test_a_full_token_table_leaves_new_tokens_unknown():
    predictor = TokenTable(**SHAPE, max_bytes=4 * LAYERS * (EXPERTS + 1))
    step(predictor, [1, 2], (0, 1), (3, 4), tokens=[50, 60])
    predictor.begin_step(2, token_ids=np.array([50, 60]))
    rows = predictor.predict_tokens(-1, 1)
    assert rows[0] == pytest.approx((np.array([1, 1, 0, 0, 0]) + 0.4) / 2)
    assert rows[1] == pytest.approx([0.4] * 5)


@pytest.mark.parametrize("name", sorted(set(predictors()) - {"oracle"}))
@given(names=st.lists(st.integers(0, 3), min_size=0, max_size=5), seed=st.integers(0, 99))
def test_rows_agree_with_the_batch(name, names, seed):
    generator = torch.Generator().manual_seed(seed)
    context = PredictorContext(**SHAPE, router=lambda source, target, hidden: ids(*[(0, 1)] * len(hidden)))
    predictor = make_predictor(name, context)
    for _ in range(2):
        predictor.begin_step(
            len(names), sequences=np.array(names, dtype=np.int64), token_ids=np.array(names, dtype=np.int64)
        )
        for layer in range(-1, LAYERS - 1):
            if layer >= 0:
                chosen = torch.rand(len(names), EXPERTS, generator=generator).argsort(1)[:, :TOP_K]
                predictor.observe(layer, torch.zeros(len(names), 4), chosen, None)
            rows = predictor.predict_tokens(layer, 1)
            assert rows.shape == (len(names), EXPERTS)
            assert (rows >= 0).all()
            assert (rows <= 1).all()
            if name != "previous-step":
                forecast = predictor.predict(layer, 1)
                assert rows.sum(axis=0) == pytest.approx(forecast.expected_tokens, abs=1e-5)


def test_rows_that_are_sure_leave_no_doubt_and_no_error():
    forecast = forecast_from_rows(np.array([[1.0, 0.0], [1.0, 0.5]]))
    assert forecast.probability == pytest.approx([1.0, 0.5])
    assert forecast.expected_tokens == pytest.approx([2.0, 0.5])
    assert chosen_rows(np.array([[1, -1]]), 3).tolist() == [[0, 1, 0]]


def test_wrong_parameters_are_refused():
    with pytest.raises(ValueError, match="decay below 1, got 1"):
        MovingAverage(**SHAPE, decay=1.0)
    with pytest.raises(ValueError, match="expected prior_tokens"):
        TokenTable(**SHAPE, prior_tokens=0)
    for maker in (MovingAverage, TokenTable):
        with pytest.raises(ValueError, match="finite prior >= 0 of shape"):
            maker(**SHAPE, prior=np.full((LAYERS, EXPERTS), np.nan))
