"""The routing-only predictor: what it computes at a gate is what was fitted, and it learns."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from linked_traces import linked_trace

from prescope.instances import decode_batches, popularity, prefill
from prescope.predictor.calibration import ANCHORS, EVENT_KNOTS, EventCurves, apply_token_map
from prescope.predictor.calibration.event_curve import anchor_weights
from prescope.predictor.calibration.token_map import KNOTS
from prescope.predictor.replay import gate, replay
from prescope.predictor.routing_only import RIDGE, RoutingOnly, RoutingOnlySettings, train_routing_only
from prescope.predictor.routing_only.calibrated import calibrated
from prescope.predictor.routing_only.design import Design
from prescope.predictor.routing_only.history import History
from prescope.predictor.split import SequenceSplit, split_sequences

SETTINGS = {
    "everything": RoutingOnlySettings(horizons=6),
    "short window": RoutingOnlySettings(horizons=3, window=2),
    "no weights": RoutingOnlySettings(horizons=3, window=2, weights=False),
    "ridge": RIDGE,
    "window alone": RoutingOnlySettings(horizons=2, window=1, previous=False, decays=(), blank_share=0),
}


@pytest.fixture(scope="module")
def trace():
    return linked_trace()


@pytest.fixture(scope="module")
def models(trace):
    return {name: train_routing_only(trace, split_sequences(trace), one) for name, one in SETTINGS.items()}


def plain_rows(model, trace, sequence):
    """Scores of all heads at every token of a sequence, from the matrices of the least squares."""
    history = History.of(trace, [sequence], prior=model.prior.astype(float), decays=model.settings.decays)
    design = Design(history=history, settings=model.settings)
    tokens = np.arange(len(history.ids))
    tokens = tokens[history.after >= 0]
    found = {}
    for source in range(model.layers):
        shared = design.shared(source, tokens, blank=False)[:, 1:]
        window = model.window[source].reshape(shared.shape[1], model.horizons, model.experts)
        for horizon in range(1, model.horizons + 1):
            own = design.own(source, horizon, tokens, blank=False)
            parts = [model.previous[source, horizon - 1 : horizon], model.average[source, horizon - 1]]
            coefficients = np.concatenate([part.reshape(-1, model.experts) for part in parts])
            score = shared @ window[:, horizon - 1] + own @ coefficients + model.bias[source, horizon - 1]
            found[source, horizon] = apply_token_map(model.knots[source, horizon - 1], score)
    return found


@pytest.mark.parametrize("name", SETTINGS)
def test_a_gate_says_what_was_fitted(name, models, trace):
    model = models[name]
    predictor = RoutingOnly(model)
    plain = {sequence: plain_rows(model, trace, sequence) for sequence in (1, 4)}
    for step, layer in replay(predictor, trace, decode_batches(trace, 2, sequences=[1, 4])):
        token = step.step
        if token + 1 >= 39:
            break
        for horizon in range(1, model.horizons + 1):
            if layer + horizon < model.layers:
                rows = predictor.predict_tokens(layer, horizon)
                # Before the first gate: what was known after the previous token.
                source, at = (layer, token) if layer >= 0 else (model.layers - 1, token - 1)
                if at >= 0:
                    wanted = np.stack([plain[one][source, horizon][at] for one in (1, 4)])
                    assert rows == pytest.approx(wanted, abs=2e-3), (layer, horizon, token)
            elif layer >= 0 and layer + horizon < 2 * model.layers:
                forecast = predictor.predict_next(layer, horizon)
                wanted = np.stack([plain[one][layer, horizon][token] for one in (1, 4)])
                assert forecast.expected_tokens == pytest.approx(wanted.sum(axis=0), abs=4e-3)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 999), tokens=st.sampled_from([0, 1, 2, 5, 32, 70]))
def test_compiled_calibration_is_the_plain_one(seed, tokens):
    rng = np.random.default_rng(seed)
    scores = rng.normal(0.2, 0.5, (tokens, 2, 5)).astype(np.float32)
    knots = np.sort(rng.uniform(1e-4, 1 - 1e-4, (2, KNOTS)), axis=1).astype(np.float32)
    changes = rng.normal(0, 0.1, (2, len(ANCHORS), EVENT_KNOTS)).astype(np.float32)
    rows, expected, needed = calibrated(scores, knots, changes, anchor_weights(tokens))
    for horizon in range(2):
        plain = apply_token_map(knots[horizon], scores[:, horizon])
        assert rows[horizon] == pytest.approx(plain, abs=1e-5)
        assert expected[horizon] == pytest.approx(plain.sum(axis=0), abs=1e-4)
        event = EventCurves(changes=changes[None]).apply(0, horizon + 1, plain)
        assert needed[horizon] == pytest.approx(event, abs=1e-4)


def test_forecasts_asked_for_late_are_the_same(models, trace):
    model = models["everything"]
    prompt, late = RoutingOnly(model), RoutingOnly(model)
    for step in decode_batches(trace, 3, sequences=[0, 2, 5], max_steps=3):
        said = {}
        for predictor in (prompt, late):
            predictor.begin_step(3, sequences=np.array([7, 8, 9]))
        for layer in range(-1, model.layers):
            for predictor in (prompt, late):
                if layer >= 0:
                    predictor.observe(layer, *gate(trace, step.rows, layer))
            for horizon in range(1, model.layers - layer):
                said[layer, horizon] = prompt.predict(layer, horizon)
        for (layer, horizon), forecast in said.items():
            again = late.predict(layer, horizon)
            assert np.array_equal(again.probability, forecast.probability)
            assert np.array_equal(again.expected_tokens, forecast.expected_tokens)


def test_it_learns_what_layers_have_to_do_with_each_other():
    trace = linked_trace(3, sequences=30, tokens=60, noise=0.1)
    split = split_sequences(trace)
    predictor = RoutingOnly(train_routing_only(trace, split))
    hits = skill = reference = 0.0
    number = 0
    shares = popularity(trace)
    for step, layer in replay(predictor, trace, decode_batches(trace, 4, sequences=split.test)):
        if layer in (0, 1):
            rows = predictor.predict_tokens(layer, 1)
            truth = np.zeros(rows.shape)
            np.put_along_axis(truth, trace.topk_ids[step.rows, layer + 1].astype(int), 1, axis=1)
            best = np.argsort(-rows, axis=1)[:, :2]
            hits += np.take_along_axis(truth, best, axis=1).sum()
            number += 2 * len(rows)
            skill += ((rows - truth) ** 2).sum()
            reference += ((shares[layer + 1] - truth) ** 2).sum()
    # A tenth of the tokens is not linked, and guesses right a third of the time.
    assert hits / number > 0.9
    assert skill < 0.3 * reference


def test_prompts_and_unknown_sequences_are_predicted_too(models):
    model = models["everything"]
    trace = linked_trace(4, sequences=2, prompt=5, tokens=3)
    predictor = RoutingOnly(model)
    steps = [*prefill(trace, 2), *decode_batches(trace, 2)]
    for step, layer in replay(predictor, trace, steps):
        if layer < model.layers - 1:
            forecast = predictor.predict(layer, 1)
            assert forecast.expected_tokens.sum() == pytest.approx(2 * step.demand.batch_tokens, rel=0.6)
    predictor.begin_step(0)
    predictor.observe(0, None, torch.zeros((0, 2), dtype=torch.int64), None)
    assert predictor.predict(0, 1).expected_tokens.tolist() == [0.0] * model.experts
    # Further than the heads reach, the slowest average speaks.
    short = RoutingOnly(models["short window"])
    short.begin_step(2)
    assert short.predict_tokens(-1, 4) == pytest.approx(np.stack([model.prior[3]] * 2), abs=1e-6)
    alone = RoutingOnly(models["window alone"])
    alone.begin_step(1)
    assert alone.predict(-1, 3).expected_tokens == pytest.approx(model.prior[2], abs=1e-6)
    with pytest.raises(ValueError, match="next step's 4 layers, got 0 \\+ 3"):
        alone.predict_next(0, 3)


def test_training_needs_sequences_of_every_kind(trace):
    with pytest.raises(ValueError, match=r"expected sequences in \[0, 7\], got \[8\]"):
        train_routing_only(trace, SequenceSplit(train=(0,), validation=(8,), test=()))
    for split in (
        SequenceSplit(train=(), validation=(1,), test=()),
        SequenceSplit(train=(0,), validation=(), test=(1,)),
    ):
        with pytest.raises(ValueError, match="sequences with recorded tokens that have a successor"):
            train_routing_only(trace, split)


def test_training_repeats_itself_and_reports(trace, models):
    seen = []
    again = train_routing_only(
        trace,
        split_sequences(trace),
        SETTINGS["everything"],
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen == [(done, 4) for done in (1, 2, 3, 4)]
    assert again.window == pytest.approx(models["everything"].window, abs=1e-4)


@pytest.mark.parametrize(
    "wrong", [{"horizons": 0}, {"window": 0}, {"decays": (1.0,)}, {"penalty": 0}, {"blank_share": 2}]
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(ValueError, match="expected"):
        RoutingOnlySettings(**wrong)


def test_arrays_of_another_shape_are_refused(models):
    with pytest.raises(ValueError, match="expected finite bias of shape"):
        dataclasses.replace(models["ridge"], bias=np.zeros((1, 2, 3)))
