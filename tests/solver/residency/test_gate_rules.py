"""Rules told gate by gate say what their step-wise forms say, and learn without a thread as with one."""

from concurrent.futures import wait
from threading import Event

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prescope.solver.residency import (
    GateAverage,
    GateLearned,
    Learned,
    LeastRecentlyUsed,
    MovingAverage,
    OutlookSettings,
    StepwiseRule,
    fit_outlook,
)
from prescope.solver.residency.refit import Refit

LAYERS, EXPERTS, TOP_K = 2, 6, 2
COSTS = {"fixed_ns": 7.0, "per_token_ns": 3.0}


def steps_of(seed, steps, tokens=1):
    random = np.random.default_rng(seed)
    counts = np.zeros((steps, LAYERS, EXPERTS), dtype=np.int64)
    for step in range(steps):
        for layer in range(LAYERS):
            for _ in range(tokens):
                favourite = (step // 5 + layer) % EXPERTS
                weights = np.where(np.arange(EXPERTS) == favourite, 6.0, 1.0)
                chosen = random.choice(EXPERTS, TOP_K, replace=False, p=weights / weights.sum())
                counts[step, layer, chosen] += 1
    return counts


def start_of(seed):
    shares = np.random.default_rng(seed).random((LAYERS, EXPERTS)) + 0.1
    return np.clip(TOP_K * shares / shares.sum(axis=1, keepdims=True), 0.0, 1.0)


def tell(rule, counts):
    for layer, row in enumerate(counts):
        rule.observe(layer, row)
    rule.end_step()


def scores(rule, tokens=1):
    return np.stack([rule.scores(layer, tokens) for layer in range(LAYERS)])


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 8))
def test_the_average_is_the_step_wise_one(seed, steps, tokens):
    start = start_of(seed)
    gates = GateAverage(start, **COSTS)
    whole = MovingAverage(start / start.sum(axis=1, keepdims=True), **COSTS)
    for counts in steps_of(seed, steps, tokens):
        tell(gates, counts)
        whole.observe(counts)
    assert np.allclose(scores(gates, tokens) * 1.0, whole.scores())


def test_a_prompt_counts_as_the_steps_that_its_tokens_would_have_taken():
    counts = steps_of(3, 1, tokens=4)[0]
    at_once, one_by_one = GateAverage(start_of(3), **COSTS), GateAverage(start_of(3), **COSTS)
    for layer in range(LAYERS):
        at_once.observe(layer, counts[layer], steps=9.0)
        for _ in range(9):
            one_by_one.observe(layer, counts[layer])
    assert np.allclose(scores(at_once), scores(one_by_one))


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(0, 3), st.sampled_from([2, 10**6]))
def test_a_fitted_model_is_asked_at_a_gate_as_the_step_wise_rule_asks_it(seed, tokens, neighbours, every):
    start, looks = start_of(seed), OutlookSettings(ahead=3, neighbours=neighbours)
    sums = fit_outlook([steps_of(seed, 40), steps_of(seed + 1, 40)], start, looks)
    gates = GateLearned(start, sums, every=every, background=False, **COSTS)
    whole = Learned(start, sums, refit=Refit(sums, every=every, background=False), **COSTS)
    for counts in steps_of(seed + 2, 8, tokens):
        said = []
        for layer, row in enumerate(counts):
            gates.observe(layer, row)
            said.append(gates.scores(layer, tokens))
        # Fitted anew between two steps, so it is the step before's model that speaks at the gates.
        model = whole._model
        whole.observe(counts)
        newest, whole._model = whole._model, model
        assert np.allclose(said, whole.scores())
        whole._model = newest
        gates.end_step()
        assert np.allclose(scores(gates, tokens), whole.scores())
    assert gates.fits == (0 if every > 8 else 4)


def test_without_a_model_it_begins_as_a_moving_average_and_then_learns():
    start = start_of(5)
    rule, average = GateLearned(start, background=False, **COSTS), GateAverage(start, **COSTS)
    sequence = steps_of(5, 400)
    for counts in sequence[:4]:
        tell(rule, counts)
        tell(average, counts)
    assert not rule.fits
    # 1 - (1 - p)**1 is p, as 1 - exp(-p) nearly is: the order is the same.
    assert (np.argsort(scores(rule)) == np.argsort(scores(average))).all()
    error = {"learned": 0.0, "average": 0.0}
    for step in range(4, 390):
        future = np.mean(sequence[step : step + 5], axis=0)
        if step > 200:
            for name, one in (("learned", rule), ("average", average)):
                said = scores(one) / (COSTS["fixed_ns"] + COSTS["per_token_ns"])
                error[name] += float(np.square(said - future).sum())
        tell(rule, sequence[step])
        tell(average, sequence[step])
    assert rule.fits > 10
    assert error["learned"] < 0.9 * error["average"]


def test_a_thread_learns_what_is_learned_without_one():
    start = start_of(8)
    alone = GateLearned(start, every=4, background=False, **COSTS)
    beside = GateLearned(start, every=4, background=True, **COSTS)
    for counts in steps_of(8, 60):
        tell(alone, counts)
        tell(beside, counts)
        while any(not one.done() for one in beside._waiting):
            pass
    beside.close()
    beside.close()
    assert alone.fits == beside.fits
    for rule in (alone, beside):
        rule.end_step()
    assert np.array_equal(scores(alone), scores(beside))


def test_a_slow_thread_is_not_given_more_and_more_steps():
    rule, going_on = GateLearned(start_of(8), background=True, **COSTS), Event()
    rule._pool.submit(going_on.wait)
    for counts in steps_of(8, 20):
        tell(rule, counts)
    assert len(rule._waiting) == 8
    going_on.set()
    rule.close()


def test_a_thread_that_fails_is_told_of_and_the_model_stays(monkeypatch, caplog):
    rule = GateLearned(start_of(8), every=1, background=True, **COSTS)
    before = scores(rule)
    monkeypatch.setattr(rule._refit, "observe", lambda rows, use: 1 / 0)
    for counts in steps_of(8, 30):
        tell(rule, counts)
        wait(rule._waiting)
    rule.close()
    assert "residents are kept by the model fitted before: division by zero" in caplog.text
    assert rule.fits == 0
    assert np.isfinite(scores(rule)).all()
    assert not np.array_equal(scores(rule), before)


def test_half_a_step_and_a_prompt_teach_nothing():
    start = start_of(9)
    rule = GateLearned(start, every=1, background=False, **COSTS)
    for counts in steps_of(9, 30):
        rule.observe(0, counts[0])
        rule.end_step()
        for layer in range(LAYERS):
            rule.observe(layer, counts[layer], steps=5.0)
        rule.end_step()
    assert rule.fits == 0


def test_large_batches_stay_unless_a_model_was_given():
    start = start_of(1)
    assert GateAverage(start, **COSTS).scores(0, 16) is None
    assert GateAverage(start, **COSTS).scores(0, 15) is not None
    assert GateLearned(start, background=False, **COSTS).scores(0, 16) is None
    sums = fit_outlook([steps_of(1, 40)], start)
    assert GateLearned(start, sums, background=False, **COSTS).scores(0, 16) is not None


def test_a_step_wise_rule_answers_at_gates_with_the_last_whole_step():
    rule = StepwiseRule(LeastRecentlyUsed(LAYERS, EXPERTS), layers=LAYERS, experts=EXPERTS)
    whole = LeastRecentlyUsed(LAYERS, EXPERTS)
    for counts in steps_of(2, 6):
        rule.observe(0, counts[0])
        assert np.array_equal(rule.scores(0, 1), whole.scores()[0])
        rule.observe(1, counts[1])
        rule.end_step()
        whole.observe(counts)
        assert np.array_equal(scores(rule), whole.scores())
    rule.observe(0, counts[0])
    rule.end_step()
    assert np.array_equal(scores(rule), whole.scores())


@pytest.mark.parametrize("decay", [0.0, 1.5])
def test_a_decay_out_of_range_is_refused(decay):
    with pytest.raises(ValueError, match="expected decay"):
        GateAverage(start_of(1), decay=decay, **COSTS)
