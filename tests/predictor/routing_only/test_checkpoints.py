"""Routing-only predictors on disk: what comes back is what went in, or a clear refusal."""

import dataclasses
import json
import logging

import numpy as np
import pytest
from linked_traces import linked_trace

from prescope.predictor import PredictorContext, make_predictor, trained_predictors
from prescope.predictor.checkpoint_files import _digest
from prescope.predictor.routing_only import (
    RIDGE,
    CheckpointError,
    RoutingOnlySettings,
    load_routing_only,
    save_routing_only,
    train_routing_only,
)
from prescope.predictor.routing_only.cost import prediction_times
from prescope.predictor.routing_only.model import shapes
from prescope.predictor.split import split_sequences


@pytest.fixture(scope="module")
def model():
    trace = linked_trace(sequences=4, tokens=12, layers=3)
    return train_routing_only(trace, split_sequences(trace), RoutingOnlySettings(horizons=2, window=2))


def context(model, **changes):
    facts = {name: getattr(model, name) for name in ("layers", "experts", "top_k", "fingerprint")}
    return PredictorContext(**{**facts, **changes})


def test_what_comes_back_is_what_went_in(model, tmp_path):
    save_routing_only(tmp_path / "new", model, notes="of a test")
    again = load_routing_only(tmp_path / "new")
    for name in shapes(model.layers, model.experts, model.settings):
        assert np.array_equal(getattr(again, name), getattr(model, name))
    for name in ("name", "fingerprint", "layers", "experts", "top_k", "settings", "split", "cost_ns", "kind"):
        assert getattr(again, name) == getattr(model, name)
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "predictor.json",
        "weights.safetensors",
    ]


def test_predictors_are_found_by_kind_and_folder(model, tmp_path, caplog):
    assert {"routing-only", "ridge"} <= set(trained_predictors())
    save_routing_only(tmp_path, model)
    predictor = make_predictor(f"routing-only:{tmp_path}", context(model))
    assert predictor.name == "routing-only"
    with caplog.at_level(logging.WARNING):
        make_predictor(f"routing-only:{tmp_path}", context(model, fingerprint=""))
    assert "could not be compared" in caplog.text
    ridge = train_routing_only(linked_trace(), split_sequences(linked_trace()), RIDGE)
    save_routing_only(tmp_path, ridge)
    assert make_predictor(f"ridge:{tmp_path}", context(ridge)).name == "ridge"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"layers": 5}, "MoE layers: 3, here 5"),
        ({"experts": 9}, "experts: 6, here 9"),
        ({"top_k": 1}, "experts per token: 2, here 1"),
        ({"fingerprint": "0bad"}, "weights of the gates: f00d, here 0bad"),
    ],
)
def test_another_model_is_refused(model, tmp_path, change, said):
    save_routing_only(tmp_path, model)
    with pytest.raises(CheckpointError, match=said):
        make_predictor(f"routing-only:{tmp_path}", context(model, **change))


def edit(folder, **changes):
    """Change the description and make its checksum fit, as a careful stranger would."""
    path = folder / "predictor.json"
    document = {**json.loads(path.read_text()), **changes}
    document["sha256"] = _digest(document)
    path.write_text(json.dumps(document))


def facts(folder, **changes):
    edit(folder, model={**json.loads((folder / "predictor.json").read_text())["model"], **changes})


def settings(folder, **changes):
    edit(folder, settings={**json.loads((folder / "predictor.json").read_text())["settings"], **changes})


DAMAGE = {
    "no folder": (lambda folder: (folder / "predictor.json").unlink(), "expected a file"),
    "no weights": (lambda folder: (folder / "weights.safetensors").unlink(), "expected a file"),
    "cut weights": (
        lambda folder: (folder / "weights.safetensors").write_bytes(b"abc"),
        "expected the weights that predictor.json was written with",
    ),
    "no JSON": (lambda folder: (folder / "predictor.json").write_text("{"), "expected JSON"),
    "another kind": (lambda folder: edit(folder, kind="llapor"), "kind 'routing-only' or 'ridge'"),
    "the other kind": (lambda folder: edit(folder, kind="ridge"), "expected the settings of kind 'ridge'"),
    "a newer version": (lambda folder: edit(folder, version=2), "expected version 1, got 2"),
    "unknown fields": (lambda folder: edit(folder, colour="red"), "expected the fields"),
    "another shape": (lambda folder: facts(folder, layers=4), "expected finite"),
    "a huge model": (lambda folder: facts(folder, layers=10**9), r"expected layers in \[1, 4096\]"),
    "too many choices": (lambda folder: facts(folder, top_k=7), r"expected top_k in \[1, 6\]"),
    "half the settings": (lambda folder: edit(folder, settings={"horizons": 2}), "RoutingOnlySettings"),
    "settings of text": (lambda folder: edit(folder, settings="all"), "RoutingOnlySettings"),
    "wider settings": (lambda folder: settings(folder, window=3), "expected finite"),
    "fewer inputs": (lambda folder: settings(folder, weights=False), "expected finite"),
    "a wrong split": (
        lambda folder: edit(folder, split={"train": [1], "validation": [1], "test": []}),
        "disjoint sequence numbers",
    ),
    "costs of fewer layers": (lambda folder: edit(folder, cost_ns=[[1, 2]]), "pairs >= 0 of 3 layers"),
    "negative costs": (lambda folder: edit(folder, cost_ns=[[1, -2]] * 3), "pairs >= 0 of 3 layers"),
    "costs of text": (lambda folder: edit(folder, cost_ns="abc"), "expected a routing-only predictor"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_noticed(model, tmp_path, name):
    damage, said = DAMAGE[name]
    save_routing_only(tmp_path, model)
    damage(tmp_path)
    with pytest.raises(CheckpointError, match=said):
        load_routing_only(tmp_path)


def test_numbers_that_are_not_finite_never_get_in(model):
    broken = np.array(model.bias)
    broken[0, 0, 0] = np.nan
    with pytest.raises(ValueError, match="expected finite bias"):
        dataclasses.replace(model, bias=broken)


def test_costs_are_measured_kept_and_read_between_batch_sizes(model, tmp_path):
    measured = prediction_times(model, repeats=2)
    assert [min(pair) > 0 for pair in measured] == [True, True, False]
    kept = dataclasses.replace(model, cost_ns=((100, 1650), (200, 200), (0, 0)))
    save_routing_only(tmp_path, kept)
    assert load_routing_only(tmp_path).cost_ns == kept.cost_ns
    predictor = make_predictor(f"routing-only:{tmp_path}", context(model))
    assert [predictor.cost_ns(0, tokens) for tokens in (0, 1, 2, 32, 64)] == [0, 100, 150, 1650, 3250]
    assert [predictor.cost_ns(layer, 8) for layer in (-1, 1, 2, 3)] == [0, 200, 0, 0]
    save_routing_only(tmp_path, model)
    assert make_predictor(f"routing-only:{tmp_path}", context(model)).cost_ns(0, 8) == 0
