"""Routing-only predictors on disk: what comes back is what went in, or a clear refusal."""

import dataclasses
import json
import logging

import numpy as np
import pytest
from linked_traces import linked_trace

from prescope.predictor import PredictorContext, make_predictor, trained_predictors
from prescope.predictor.routing_only import (
    RIDGE,
    CheckpointError,
    RoutingOnlySettings,
    load_routing_only,
    save_routing_only,
    train_routing_only,
)
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
    for name in ("name", "fingerprint", "layers", "experts", "top_k", "settings", "split", "kind"):
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
    path = folder / "predictor.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, **changes}))


DAMAGE = {
    "no folder": (lambda folder: (folder / "predictor.json").unlink(), "expected a checkpoint"),
    "no weights": (lambda folder: (folder / "weights.safetensors").unlink(), "expected the weights"),
    "cut weights": (
        lambda folder: (folder / "weights.safetensors").write_bytes(b"abc"),
        "expected the weights that predictor.json was written with",
    ),
    "no JSON": (lambda folder: (folder / "predictor.json").write_text("{"), "expected JSON"),
    "deep JSON": (lambda folder: (folder / "predictor.json").write_text("[" * 100_000), "expected JSON"),
    "a list": (lambda folder: (folder / "predictor.json").write_text("[]"), "expected an object, got list"),
    "another kind": (lambda folder: edit(folder, kind="llapor"), "expected kind 'routing-only' or 'ridge'"),
    "a newer version": (lambda folder: edit(folder, version=2), "expected version 1, got 2"),
    "unknown fields": (lambda folder: edit(folder, colour="red"), "expected the fields"),
    "another shape": (
        lambda folder: edit(
            folder, model={**json.loads((folder / "predictor.json").read_text())["model"], "layers": 4}
        ),
        "expected finite prior of shape",
    ),
    "no settings": (
        lambda folder: edit(folder, settings={"horizons": 2}),
        "expected a routing-only predictor",
    ),
    "settings of text": (lambda folder: edit(folder, settings="all"), "expected a routing-only predictor"),
    "a wrong split": (
        lambda folder: edit(folder, split={"train": [1], "validation": [1], "test": []}),
        "disjoint sequence numbers",
    ),
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
