"""The library that comes with the package."""

import hashlib
import runpy
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from prescope.instances import (
    HorizonFile,
    library_root,
    library_sets,
    list_library,
    load_library_horizon,
    load_library_instance,
    verify_library,
)
from prescope.instances.library_recipes import SETS
from prescope.instances.library_recipes.sources import tiny_trace
from prescope.solver.prove_bounds import BY_CP_SAT
from prescope.tiny import tiny_model_path


def test_everything_in_the_library_is_as_the_index_says() -> None:
    seen: list[tuple[int, int, str]] = []
    faults = verify_library(progress=lambda number, total, entry: seen.append((number, total, entry.name)))
    assert faults == ()
    entries = list_library()
    assert seen == [(number, len(entries), entry.name) for number, entry in enumerate(entries)]


def test_library_is_small_and_every_set_says_what_it_is() -> None:
    files = [path for path in library_root().rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 10**7
    assert library_sets() == tuple(SETS)
    for name in library_sets():
        text = (library_root() / name / "README.md").read_text()
        for word in ("Rounding", "Rebuild", "Difficulty", "Licence", "Costs"):
            assert word in text or (name == "adversarial" and word == "Costs"), (name, word)


def test_library_is_as_large_and_as_wide_as_promised() -> None:
    entries = list_library()
    assert len(entries) >= 200
    sizes = {(entry.layers, entry.experts) for entry in entries}
    assert (3, 3) in sizes
    assert max((entry.layers, entry.experts, entry.tokens) for entry in entries) == (58, 256, 2048)


def test_bounds_are_tight_and_named() -> None:
    for entry in list_library():
        if entry.steps is not None:
            continue
        assert entry.lower_bound_by and entry.lower_bound_ns and entry.best_ns
        assert (entry.optimum_ns == entry.best_ns) == (entry.best_ns == entry.lower_bound_ns)
        if entry.set not in ("adversarial", "mixed-size"):
            assert (entry.best_ns - entry.lower_bound_ns) / entry.lower_bound_ns <= 0.005, entry.name


@pytest.mark.parametrize("name", [name for name in SETS if name not in ("prefill", "decode-b64", "horizons")])
def test_a_set_is_what_its_recipe_makes(name: str) -> None:
    stored = {entry.name: entry for entry in list_library(sets=[name])}
    seen = set()
    for number, file in enumerate(islice(SETS[name](), 60)):
        seen.add(file.instance.name)
        if number % 9 == 0:
            again = load_library_instance(file.instance.name)
            assert again.instance == file.instance, "the recipe changed: give it a new version"
            assert replace(again.provenance, created_by="x") == replace(file.provenance, created_by="x")
    assert seen == set(stored) or len(seen) == 60


def test_horizons_are_what_their_recipe_makes_and_have_room_for_better_rules() -> None:
    entries = list_library(sets=["horizons"])
    assert len(entries) >= 10 and {entry.tokens for entry in entries} == {1, 4, 8, 32}
    for entry in entries:
        assert entry.steps and entry.lower_bound_ns and entry.best_ns and entry.best_by
        assert entry.lower_bound_ns <= entry.best_ns < 1.5 * entry.lower_bound_ns
        assert entry.best_by.partition("+")[0] in ("flow", "belady")
    names = {entry.name for entry in entries}
    for number, file in enumerate(SETS["horizons"]()):
        assert isinstance(file, HorizonFile) and file.horizon.name in names
        if number % 5 == 0:
            again = load_library_horizon(file.horizon.name)
            assert again.horizon == file.horizon, "the recipe changed: give it a new version"
            assert replace(again.provenance, created_by="x") == replace(file.provenance, created_by="x")
    with pytest.raises(ValueError, match="which is a horizon: load it with load_library_horizon"):
        load_library_instance(entries[0].name)
    with pytest.raises(ValueError, match="which is an instance: load it with load_library_instance"):
        load_library_horizon(list_library(sets=["disk"])[0].name)


def test_every_tiny_instance_is_proved_by_cp_sat() -> None:
    entries = list_library(sets=["tiny-proved"])
    assert len(entries) >= 40
    for entry in entries:
        assert entry.optimum_by == entry.lower_bound_by == BY_CP_SAT
        assert entry.optimum_ns == entry.best_ns == entry.lower_bound_ns


def test_predictions_are_beside_the_truth() -> None:
    entries = list_library(sets=["predicted-vs-true"])
    for entry in entries:
        instance = load_library_instance(entry.name).instance
        assert instance.predicted is not None
        assert instance.predicted.horizons >= 2
        # A predictor knows how many tokens the batch has.
        expected = instance.predicted.expected_tokens.sum(axis=2)
        assert expected == pytest.approx(
            np.broadcast_to(instance.demand.counts.sum(axis=1), expected.shape), rel=0.4
        )
    sources = {load_library_instance(entry.name).instance.predicted.source for entry in entries}  # type: ignore[union-attr]
    assert len(sources) >= 6


def test_sets_can_be_chosen() -> None:
    assert {entry.set for entry in list_library(sets=["disk", "prefill"])} == {"disk", "prefill"}
    with pytest.raises(ValueError, match="expected a set among tiny-proved, .*got 'disc'|got 'disc'"):
        list_library(sets=["disc"])


def test_trace_is_of_the_model_that_is_shipped() -> None:
    for name, expected in (
        ("model.safetensors", tiny_trace().meta.fingerprint),
        ("tokenizer.json", tiny_trace().meta.tokenizer),
    ):
        assert hashlib.sha256((tiny_model_path() / name).read_bytes()).hexdigest() == expected


def test_recording_again_gives_the_same_routing() -> None:
    """Not bit for bit: processors add in different orders, and two experts may be almost equally good."""
    recorder = Path(__file__).resolve().parents[2] / "benchmarks" / "record_tiny_routing.py"
    trace = runpy.run_path(str(recorder))["record_tiny_routing"](sequences=3)
    stored = tiny_trace()
    same = np.sort(trace.topk_ids, axis=2) == np.sort(stored.topk_ids[: trace.tokens], axis=2)
    assert trace.tokens == 3 * 64 and same.mean() > 0.99
    assert trace.topk_weights is not None and stored.topk_weights is not None
    error = np.abs(trace.topk_weights.astype(float) - stored.topk_weights[: trace.tokens])
    assert np.median(error) < 1e-3


def test_unknown_name_lists_near_ones() -> None:
    with pytest.raises(ValueError, match=r"near: .*mixtral-8x7b@a100-pcie4-b1-s0"):
        load_library_instance("mixtral-8x7b@a100-pcie4-b1-s1")


def test_tables_of_instances_leave_horizons_out() -> None:
    root = Path(__file__).resolve().parents[2]
    chosen = runpy.run_path(str(root / "benchmarks" / "library_check.py"))["instances"]
    names = {entry.name for entry in list_library() if entry.steps is None}
    assert {entry.name for entry in chosen([])} == names
    assert {entry.set for entry in chosen(["disk", "horizons"])} == {"disk"}
    with pytest.raises(SystemExit, match="expected sets with instances, got horizons"):
        chosen(["horizons"])
