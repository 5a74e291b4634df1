"""LLaPor learns, says while running what it said in training, and keeps its promises on any input."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import prescope.predictor.llapor.train as training
from prescope.instances import decode_batches, prefill
from prescope.predictor import PredictorContext, make_predictor, replay
from prescope.predictor.checkpoint_files import write_checkpoint
from prescope.predictor.llapor import (
    GroupSettings,
    Llapor,
    load_llapor,
    save_llapor,
    train_llapor,
)
from prescope.predictor.llapor.cost import prediction_times
from prescope.predictor.llapor.rows import SourceData, histories, trace_rows
from prescope.predictor.split import SequenceSplit
from tests.support.hidden_traces import EXPERTS, HIDDEN, LAYERS, SMALL, TOP_K, hidden_trace


@cache
def trained():
    return train_llapor(hidden_trace(), settings=SMALL)


def context(**changes):
    facts = {
        "layers": LAYERS,
        "experts": EXPERTS,
        "top_k": TOP_K,
        "hidden_size": HIDDEN,
        "fingerprint": "00c0ffee",
    }
    return PredictorContext(**(facts | changes))


def test_what_was_learnt_is_far_better_than_popularity():
    trace = hidden_trace(8, seed=7)
    predictor, hits, total = Llapor(trained()), 0, 0
    for step, layer in replay(predictor, trace, decode_batches(trace, 4)):
        for horizon in range(1, LAYERS - layer):
            named = predictor.predict_tokens(layer, horizon).argsort(axis=1)[:, -TOP_K:]
            truth = trace.topk_ids[step.rows, layer + horizon]
            hits += (named[:, :, None] == truth[:, None, :]).sum()
            total += truth.size
    assert hits / total > 0.75 > 2 * TOP_K / EXPERTS


def with_sequence_of(other, trace, sequence):
    """A trace in which one sequence is that of another trace."""
    start, end = trace.seq_offsets[sequence : sequence + 2]
    changed = {}
    for name in ("topk_ids", "hidden", "topk_weights", "token_ids"):
        changed[name] = getattr(trace, name).copy()
        changed[name][start:end] = getattr(other, name)[start:end]
        assert (changed[name] != getattr(trace, name)).any()
    return replace(trace, **changed)


def test_test_sequences_are_not_looked_at_and_validation_ones_calibrate(monkeypatch):
    trace, split = hidden_trace(7), SequenceSplit(train=(0, 3, 5, 6), validation=(1, 4), test=(2,))
    once, judged, calibrate = replace(SMALL, epochs=1), [], training.calibrate_source

    def watched(network, data, lengths, *, seed):
        judged.append((data, lengths))
        return calibrate(network, data, lengths, seed=seed)

    monkeypatch.setattr(training, "calibrate_source", watched)
    plain = train_llapor(trace, split=split, settings=once)
    held = trace_rows(trace, split.validation)
    for source, (data, lengths) in enumerate(judged):
        assert lengths == held.lengths
        assert (data.target_ids(torch.arange(len(data)), 1) == held.ids[:, source : source + 1]).all()
    blind = train_llapor(with_sequence_of(hidden_trace(7, seed=9), trace, 2), split=split, settings=once)
    assert (plain.correction == blind.correction).all() and (plain.prior == blind.prior).all()
    for one, other in zip(plain.networks, blind.networks, strict=True):
        assert all((value == other.state_dict()[name]).all() for name, value in one.state_dict().items())


@pytest.mark.parametrize("tokens", [True, False])
@pytest.mark.parametrize("weights", [True, False])
def test_running_forecasts_are_those_of_training(tokens, weights):
    trace = hidden_trace(3, 6, seed=3, weights=weights, tokens=tokens)
    model = trained()
    rows = trace_rows(trace, range(3))
    past = histories(rows, model.basis, decay=SMALL.decay)
    predictor = Llapor(model)
    steps = [*prefill(trace, 3), *decode_batches(trace, 3)]
    seen = 0
    for step, layer in replay(predictor, trace, steps):
        if layer + 1 == LAYERS:
            continue
        data = SourceData(rows, past, model.basis, source=layer + 1, experts=EXPERTS)
        logits = model.networks[layer + 1](data.features(torch.tensor(step.rows)))
        for horizon in range(1, min(SMALL.horizons, LAYERS - layer - 1) + 1):
            expected = torch.sigmoid(logits[:, horizon - 1]).detach().numpy()
            assert predictor.predict_tokens(layer, horizon) == pytest.approx(expected, abs=1e-4)
            seen += 1
    assert seen > 20


def test_inside_a_prompt_only_the_first_row_has_a_past():
    trace = hidden_trace(2, 8, seed=4, prompt=4)
    predictor = Llapor(trained())
    pasts = []
    for step, layer in replay(predictor, trace, [*prefill(trace, 2), *decode_batches(trace, 2)]):
        if layer < 0:
            pasts.append((len(step.rows), predictor._step.past[:, -1].tolist()))
    assert pasts == [(8, [0.0] * 8)] + [(2, [1.0, 1.0])] * 4


@given(
    counts=st.lists(st.integers(0, 5), min_size=1, max_size=3),
    seed=st.integers(0, 2**16),
    named=st.booleans(),
    broken=st.booleans(),
)
def test_forecasts_are_valid_for_any_batch(counts, seed, named, broken):
    generator = torch.Generator().manual_seed(seed)
    predictor = Llapor(trained(), capacity=2)
    for count in counts:
        names = torch.randint(0, 3, (count,), generator=generator).numpy()
        ids = torch.randint(-1, 40, (count,), generator=generator).numpy()
        predictor.begin_step(count, sequences=names if named else None, token_ids=ids if named else None)
        for layer in range(-1, LAYERS):
            if layer >= 0:
                hidden = torch.randn(count, HIDDEN, generator=generator) * (float("nan") if broken else 1e4)
                chosen = torch.rand(count, EXPERTS, generator=generator).argsort(1)[:, :TOP_K]
                predictor.observe(layer, hidden, chosen, None)
            for horizon in range(1, LAYERS - layer):
                forecast = predictor.predict(layer, horizon)
                assert (forecast.expected_tokens <= count + 1e-6).all()
                assert (forecast.probability <= forecast.expected_tokens + 1e-9).all()
                assert predictor.predict_tokens(layer, horizon).shape == (count, EXPERTS)


def test_a_forecast_may_be_asked_for_after_later_gates():
    trace = hidden_trace(2, 3, seed=5)
    found = []
    for late in (False, True):
        predictor, said = Llapor(trained()), {}
        for _, layer in replay(predictor, trace, decode_batches(trace, 2)):
            if not late and layer == 0:
                said[layer] = predictor.predict(0, 2).probability
            if late and layer == LAYERS - 1:
                said[0] = predictor.predict(0, 2).probability
        found.append(said[0])
    assert found[0] == pytest.approx(found[1])


def test_wrong_inputs_are_refused_with_what_was_expected():
    predictor = Llapor(trained())
    predictor.begin_step(2)
    ids = torch.tensor([[0, 1], [2, 3]])
    with pytest.raises(ValueError, match="expected gating inputs .* 'routing-only'"):
        predictor.observe(0, None, ids, None)
    with pytest.raises(ValueError, match=r"shape \(2, 8\), got \(2, 5\)"):
        predictor.observe(0, torch.zeros(2, 5), ids, None)
    with pytest.raises(ValueError, match="expected the gate of layer 1 first"):
        predictor.predict(1, 1)
    with pytest.raises(ValueError, match="expected a horizon >= 1 reaching"):
        predictor.predict(2, 2)
    with pytest.raises(ValueError, match="expected 2 sequence ids, got 3"):
        predictor.begin_step(2, sequences=np.arange(3))
    bare = replace(hidden_trace(4, 4), hidden=None)
    with pytest.raises(ValueError, match="expected a trace with gating inputs"):
        train_llapor(bare, settings=SMALL)


def test_a_checkpoint_comes_back_and_says_the_same(tmp_path):
    model = replace(trained(), cost_ns=tuple((10, 41 + at) for at in range(LAYERS)))
    save_llapor(tmp_path / "a", model, notes="n")
    again = load_llapor(tmp_path / "a")
    assert (again.facts, again.settings, again.split, again.groups) == (
        model.facts, model.settings, model.split, model.groups,
    )  # fmt: skip
    predictor = make_predictor(f"llapor:{tmp_path / 'a'}", context())
    assert predictor.cost_ns(0, 32) == 42 and predictor.cost_ns(0, 1) == 10 and predictor.cost_ns(9, 1) == 0
    trace = hidden_trace(3, 5, seed=9)
    other = Llapor(model)
    for _ in zip(
        replay(predictor, trace, decode_batches(trace, 3)),
        replay(other, trace, decode_batches(trace, 3)),
        strict=True,
    ):
        pass
    assert predictor.predict(1, 2).probability == pytest.approx(other.predict(1, 2).probability, abs=0.01)
    save_llapor(tmp_path / "b", again)
    assert (tmp_path / "b/weights.safetensors").read_bytes() == (
        tmp_path / "a/weights.safetensors"
    ).read_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers": 5}, "layers: expected 4, got 5"),
        ({"experts": 7}, "experts: expected 6, got 7"),
        ({"top_k": 1}, "top_k: expected 2, got 1"),
        ({"hidden_size": 9}, "hidden_size: expected 8, got 9"),
        ({"fingerprint": "deadbeef"}, "weights of the gates: expected 00c0ffee, got deadbeef"),
    ],
)
def test_another_model_is_refused_with_what_differs(tmp_path, change, message):
    save_llapor(tmp_path, trained())
    with pytest.raises(
        ValueError, match=f"trained for the model 'walk', .*{message}.*prescope record --hidden"
    ):
        make_predictor(f"llapor:{tmp_path}", context(**change))
    assert make_predictor(f"llapor:{tmp_path}", context(fingerprint="")).name == "llapor"


def test_damaged_checkpoints_are_refused(tmp_path):
    save_llapor(tmp_path, trained())
    weights, document = tmp_path / "weights.safetensors", tmp_path / "predictor.json"
    whole, text = weights.read_bytes(), document.read_text()
    with pytest.raises(ValueError, match="expected a file of a trained predictor"):
        load_llapor(tmp_path / "nowhere")
    weights.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="expected the weights that predictor.json was written with"):
        load_llapor(tmp_path)
    weights.write_bytes(whole)
    for broken in ("", "[]", text[:40], text.replace('"kind": "llapor"', '"kind": "other"')):
        document.write_text(broken)
        with pytest.raises(ValueError, match="predictor.json: expected"):
            load_llapor(tmp_path)
    facts = json.loads(text)
    fields = {name: facts[name] for name in ("model", "settings", "split", "groups", "cost_ns", "notes")}
    for part, changed in (
        ("model", {"layers": 3}),
        ("model", {"experts": 5}),
        ("model", {"hidden_size": 9}),
        ("model", {"top_k": "x"}),
        ("model", {"more": 1}),
        ("settings", {"horizons": 2}),
        ("settings", {"decay": 2.0}),
        ("split", {"test": [0, 1, 2]}),
    ):
        write_checkpoint(tmp_path, "llapor", fields | {part: fields[part] | changed}, whole)
        with pytest.raises(ValueError, match="expected a predictor of kind 'llapor', got"):
            load_llapor(tmp_path)
    write_checkpoint(tmp_path, "llapor", fields | {"groups": ["middle", "outer", "middle", "middle"]}, whole)
    with pytest.raises(ValueError, match="expected one for each of 4 sources"):
        load_llapor(tmp_path)


def test_a_compact_checkpoint_is_smaller_and_says_nearly_the_same(tmp_path):
    wide = GroupSettings(kind="gated", hidden=70)
    model = train_llapor(hidden_trace(), settings=replace(SMALL, outer=wide, middle=wide, epochs=1))
    for compact in (False, True):
        save_llapor(tmp_path / str(compact), model, compact=compact)
    sizes = [(tmp_path / str(compact) / "weights.safetensors").stat().st_size for compact in (False, True)]
    assert sizes[1] < 0.8 * sizes[0]
    for one, other in zip(model.networks, load_llapor(tmp_path / "True").networks, strict=True):
        rows = torch.randn(20, one.enter.shape[1])
        assert torch.allclose(one(rows), other(rows), atol=0.1)


def test_costs_are_measured_for_every_source():
    times = prediction_times(trained(), repeats=2)
    assert len(times) == LAYERS and all(one > 0 and many > 0 for one, many in times)
