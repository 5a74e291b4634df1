"""Every predictor keeps the protocol; each says what it should on cases small enough to work out."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prescope.predictor import (
    Oracle,
    Popularity,
    PredictorContext,
    PreviousStep,
    StaleGate,
    make_predictor,
    predictors,
)

LAYERS, EXPERTS, TOP_K = 3, 5, 2


def ids(*rows):
    return torch.tensor(rows, dtype=torch.int64).reshape(-1, TOP_K)


def context(steps=None):
    return PredictorContext(
        layers=LAYERS,
        experts=EXPERTS,
        top_k=TOP_K,
        router=lambda source, target, hidden: ids(*[(0, 1)] * hidden.shape[0]),
        steps=steps if steps is not None else [np.zeros((LAYERS, EXPERTS), dtype=np.int64)] * 50,
    )


@pytest.mark.parametrize("name", predictors())
@given(
    tokens=st.lists(st.integers(0, 6), min_size=1, max_size=4),
    seed=st.integers(0, 2**16),
)
def test_forecasts_are_valid_for_any_batch(name, tokens, seed):
    generator = torch.Generator().manual_seed(seed)
    chosen = [
        [torch.rand(count, EXPERTS, generator=generator).argsort(1)[:, :TOP_K] for _ in range(LAYERS)]
        for count in tokens
    ]
    counts = [
        np.stack([np.bincount(layer.reshape(-1).numpy(), minlength=EXPERTS) for layer in step])
        for step in chosen
    ]
    predictor = make_predictor(name, context(counts))
    assert predictor.name == name
    for count, step in zip(tokens, chosen, strict=True):
        predictor.begin_step(count)
        for layer in range(-1, LAYERS - 1):
            if layer >= 0:
                predictor.observe(layer, torch.zeros(count, 4), step[layer], None)
            for horizon in range(1, LAYERS - layer):
                forecast = predictor.predict(layer, horizon)
                assert forecast.expected_tokens.shape == (EXPERTS,)
                assert (forecast.expected_tokens <= count + 1e-9).all()
                # An expert cannot be likelier to be needed than it has expected tokens.
                assert (forecast.probability <= forecast.expected_tokens + 1e-9).all()


@pytest.mark.parametrize("name", predictors())
@pytest.mark.parametrize(("layer", "horizon"), [(0, 0), (2, 1), (-1, 4), (0, 3)])
def test_layers_outside_the_model_are_refused(name, layer, horizon):
    predictor = make_predictor(name, context())
    predictor.begin_step(1)
    with pytest.raises(ValueError, match=r"expected a horizon >= 1 reaching a layer in \[0, 2\]"):
        predictor.predict(layer, horizon)


def test_popularity_is_the_average_of_prior_and_tokens():
    prior = np.full((LAYERS, EXPERTS), TOP_K / EXPERTS)
    predictor = Popularity(layers=LAYERS, experts=EXPERTS, top_k=TOP_K, prior=prior, prior_tokens=2)
    predictor.begin_step(2)
    predictor.observe(1, None, ids((0, 1), (0, 2)), None)
    forecast = predictor.predict(0, 1)
    shares = np.array([0.8 + 2, 0.8 + 1, 0.8 + 1, 0.8, 0.8]) / 4
    assert forecast.expected_tokens == pytest.approx(shares * 2)
    assert forecast.probability == pytest.approx(1 - (1 - shares) ** 2)
    with pytest.raises(ValueError, match="finite prior >= 0 of shape"):
        Popularity(layers=LAYERS, experts=EXPERTS, top_k=TOP_K, prior=np.full((LAYERS, EXPERTS), np.nan))


def test_previous_step_repeats_shares_of_the_same_layer():
    predictor = PreviousStep(layers=LAYERS, experts=EXPERTS, top_k=TOP_K)
    predictor.begin_step(2)
    predictor.observe(2, None, ids((3, 1), (3, 4)), None)
    predictor.begin_step(4)
    assert predictor.predict(0, 2).expected_tokens == pytest.approx([0, 2, 0, 4, 2])


def test_oracle_tells_the_truth_and_notices_another_pass():
    step = np.array([[2, 0, 0, 1, 1]] * LAYERS)
    oracle = Oracle(steps=[step])
    oracle.begin_step(2)
    assert oracle.known_counts() is not None
    assert oracle.predict(0, 2).expected_tokens.tolist() == [2, 0, 0, 1, 1]
    oracle.observe(0, None, ids((0, 3), (0, 4)), None)
    with pytest.raises(ValueError, match="step 0 layer 1"):
        oracle.observe(1, None, ids((0, 3), (1, 4)), None)
    with pytest.raises(ValueError, match="at most 1 steps"):
        oracle.begin_step(2)
    with pytest.raises(ValueError, match="at least one step"):
        Oracle(steps=[])


def test_stale_gate_learns_how_far_to_trust_a_layer():
    named = {1: (0, 1), 2: (2, 3)}
    stale = StaleGate(
        layers=LAYERS,
        experts=EXPERTS,
        top_k=TOP_K,
        router=lambda source, target, hidden: ids(*[named[target]] * hidden.shape[0]),
        initial_precision=0.5,
    )
    for _ in range(200):
        stale.begin_step(1)
        stale.observe(0, torch.zeros(1, 4), ids((0, 1)), None)
        stale.predict(0, 1)
        stale.predict(0, 2)
        # Layer 1 does what its stale gate said, layer 2 never does.
        stale.observe(1, torch.zeros(1, 4), ids((0, 1)), None)
        stale.observe(2, torch.zeros(1, 4), ids((0, 4)), None)
    stale.begin_step(1)
    stale.observe(0, torch.zeros(1, 4), ids((0, 1)), None)
    right, wrong = stale.predict(0, 1), stale.predict(0, 2)
    assert right.probability[:2] == pytest.approx(1.0, abs=1e-3)
    assert wrong.probability[[2, 3]] == pytest.approx(0.0, abs=1e-3)
    assert wrong.probability[[0, 4]] == pytest.approx(1.0, abs=1e-2)


def test_unknown_names_and_missing_parts_are_refused():
    with pytest.raises(ValueError, match="expected a predictor among moving-average, oracle"):
        make_predictor("crystal-ball", context())
    bare = PredictorContext(layers=LAYERS, experts=EXPERTS, top_k=TOP_K)
    for name, missing in (("oracle", "a recorded pass"), ("stale-gate", "a model whose gates")):
        with pytest.raises(ValueError, match=missing):
            make_predictor(name, bare)


def test_a_step_that_broke_off_leaves_no_trace_in_the_next():
    stale = make_predictor("stale-gate", context())
    stale.begin_step(3)
    stale.observe(0, torch.zeros(3, 4), ids((0, 1), (0, 1), (0, 1)), None)
    before = stale.predict(0, 1).probability
    # Layer 1 was never reached. In the next step its gate must not be judged by the old forecast.
    stale.begin_step(2)
    assert stale.predict(0, 1).probability != pytest.approx(before)
    stale.observe(1, torch.zeros(2, 4), ids((2, 3), (2, 3)), None)
    stale.begin_step(3)
    stale.observe(0, torch.zeros(3, 4), ids((0, 1), (0, 1), (0, 1)), None)
    # The precision is as it was, though experts 0 and 1 were named and not chosen.
    shares = 0.4 * 0.95**2
    assert stale.predict(0, 1).probability[0] == pytest.approx(1 - (1 - 0.6 - 0.4 * shares) ** 3)


def test_a_gate_of_many_tokens_moves_the_averages_as_that_many_steps_of_one():
    together, apart = (make_predictor("stale-gate", context()) for _ in range(2))
    together.begin_step(4)
    together.observe(0, None, ids(*[(2, 3)] * 4), None)
    for _ in range(4):
        apart.begin_step(1)
        apart.observe(0, None, ids((2, 3)), None)
    for predictor in (together, apart):
        predictor.begin_step(1)
    assert together.predict(-1, 1).probability == pytest.approx(apart.predict(-1, 1).probability)
    assert together.predict(-1, 1).probability[2] == pytest.approx(1 - 0.6 * 0.95**4)


@pytest.mark.parametrize("name", ["popularity", "stale-gate"])
def test_a_prior_is_what_is_said_before_anything_was_seen(name):
    prior = np.linspace(0, 1, LAYERS * EXPERTS).reshape(LAYERS, EXPERTS)
    predictor = make_predictor(name, replace(context(), prior=prior))
    predictor.begin_step(1)
    assert predictor.predict(-1, 2).probability == pytest.approx(prior[1])
