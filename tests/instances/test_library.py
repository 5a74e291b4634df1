"""The library that comes with the package, and the checks that guard it."""

import hashlib
import json
import runpy
import shutil
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from file_mutants import sealed

from prescope.formulation import Instance, LayerPlan, Plan, PlanInfo, makespan_ns
from prescope.instances import (
    Bounds,
    HorizonFile,
    InstanceFile,
    InstanceFileError,
    LibraryEntry,
    Provenance,
    library_root,
    library_sets,
    list_library,
    load_library_horizon,
    load_library_instance,
    load_library_plan,
    synthetic_instance,
    verify_library,
    write_index,
    write_instance,
    write_plan,
)
from prescope.instances.library_recipes import SETS
from prescope.instances.library_recipes.sources import tiny_trace
from prescope.solver.prove_bounds import BY_CP_SAT
from prescope.tiny import tiny_model_path

FIELDS = {
    "name",
    "set",
    "path",
    "layers",
    "experts",
    "tokens",
    "slots",
    "optimum_ns",
    "optimum_by",
    "bounds",
    "sha256",
    "plan_sha256",
}


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


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A library of one instance, with a plan that runs everything on the host."""
    root = tmp_path / "library"
    (root / "set").mkdir(parents=True)
    instance = synthetic_instance("mixtral-8x7b", "lab", 1, 0, name="one")
    cpu = [LayerPlan(cpu=tuple(row.nonzero()[0].tolist())) for row in instance.demand.counts]
    cost_ns = makespan_ns(instance, Plan(layers=tuple(cpu)))
    plan = Plan(layers=tuple(cpu), info=PlanInfo(method="cpu-only", makespan_ns=cost_ns))
    plan_sha256 = write_plan(root / "set" / "one.plan.json.gz", plan, instance)
    file = InstanceFile(
        instance=instance,
        provenance=Provenance(source="test"),
        bounds=Bounds(lower_bound_ns=1000, lower_bound_by="test"),
    )
    entry = LibraryEntry(
        name="one",
        set="set",
        path="set/one.json.gz",
        layers=32,
        experts=8,
        tokens=1,
        slots=instance.slots,
        optimum_ns=None,
        optimum_by=None,
        lower_bound_ns=1000,
        lower_bound_by="test",
        best_ns=cost_ns,
        best_by="cpu-only",
        sha256=write_instance(root / "set" / "one.json.gz", file),
        plan_sha256=plan_sha256,
    )
    write_index(root, [entry])
    assert verify_library(root) == ()
    return root


def store_plan(root: Path, plan: Plan, instance: Instance) -> None:
    sha256 = write_plan(root / "set" / "one.plan.json.gz", plan, instance)
    write_index(root, [replace(list_library(root)[0], plan_sha256=sha256)])


def faults(root: Path) -> list[str]:
    return [f"{fault.name}: {fault.problem}" for fault in verify_library(root)]


def test_index_has_the_documented_fields(library: Path) -> None:
    document = json.loads((library / "index.json").read_text())
    assert set(document) == {"format", "version", "sha256", "entries"}
    assert set(document["entries"][0]) == FIELDS


CLAIMS: dict[str, tuple[dict[str, Any], str]] = {
    "best_ns": ({"best_ns": 10**8}, "expected 100000000 ns as the index claims, got"),
    "best_by": ({"best_by": "dp"}, "expected method 'dp' as the index says, got 'cpu-only'"),
    "layers": ({"layers": 31}, "layers: expected 31 as the index says, got 32"),
    "tokens": ({"tokens": 2}, "tokens: expected 2"),
    "lower bound": ({"lower_bound_ns": 10**7}, "lower_bound_ns: expected 10000000"),
    "sha256": ({"sha256": "0" * 64}, "sha256: expected '0000"),
    "plan_sha256": ({"plan_sha256": "0" * 64}, "sha256: expected '0000"),
    "slots": ({"slots": 99}, "slots: expected 99 as the index says"),
    "prover": ({"lower_bound_by": "me"}, "lower_bound_by: expected 'me'"),
    "plan not listed": (
        {"best_ns": None, "best_by": None, "plan_sha256": None},
        "set/one.plan.json.gz: expected the index to list",
    ),
}


@pytest.mark.parametrize("case", CLAIMS)
def test_a_claim_that_is_not_so_is_found(library: Path, case: str) -> None:
    change, message = CLAIMS[case]
    write_index(library, [replace(entry, **change) for entry in list_library(library)])
    found = faults(library)
    assert len(found) == 1 and message in found[0], found


def test_a_plan_that_costs_something_else_is_refused(library: Path) -> None:
    file, best = load_library_instance("one", library), load_library_plan("one", library)
    path = library / "set" / "one.plan.json.gz"
    claimed = best.plan.info.makespan_ns
    assert claimed is not None
    wrong = replace(best.plan, info=replace(best.plan.info, makespan_ns=claimed - 1))
    store_plan(library, wrong, file.instance)
    assert f"expected {claimed - 1} ns as the plan claims, got {claimed} ns" in faults(library)[0]
    store_plan(library, best.plan, replace(file.instance, slots=5))
    assert "expected instance 'one' with checksum" in faults(library)[0]
    infeasible = replace(best.plan, layers=(LayerPlan(cpu=(0,)),) * 32)
    store_plan(library, infeasible, file.instance)
    assert "one: expert without tokens" in faults(library)[0] or "missing device" in faults(library)[0]
    path.unlink()
    assert "No such file" in faults(library)[0]


def test_a_bound_above_the_plan_is_found(library: Path) -> None:
    file, entry = load_library_instance("one", library), list_library(library)[0]
    too_high = Bounds(lower_bound_ns=(entry.best_ns or 0) + 1, lower_bound_by="test")
    sha256 = write_instance(library / entry.path, replace(file, bounds=too_high))
    write_index(library, [replace(entry, lower_bound_ns=too_high.lower_bound_ns, sha256=sha256)])
    assert "expected at least the lower bound" in faults(library)[0]


def test_a_file_nobody_listed_is_found(library: Path) -> None:
    shutil.copy(library / "set" / "one.json.gz", library / "set" / "two.json.gz")
    assert faults(library) == ["set/two.json.gz: expected the index to list this file, got none"]


@pytest.mark.parametrize(
    "path",
    [
        *("../one.json.gz", "/set/one.json.gz", "set/../one.json.gz", "set/one.json", "."),
        *("set//one.json.gz", "set/two.json.gz", "other/one.json.gz", "set/one\0.json.gz"),
    ],
)
def test_index_cannot_point_outside(library: Path, path: str) -> None:
    with pytest.raises(ValueError, match=r"expected the path set/one\.json\.gz, got"):
        replace(list_library(library)[0], path=path)
    document = json.loads((library / "index.json").read_text())
    document["entries"][0]["path"] = path
    (library / "index.json").write_bytes(sealed(document))
    with pytest.raises(InstanceFileError, match="entries: expected the path set/one"):
        list_library(library)


@pytest.mark.parametrize("odd", ["..", ".", "", "a/b", "/", "a\\b", "a\0", "a\n", "-a", "~", "ä"])
def test_names_cannot_point_outside(library: Path, odd: str) -> None:
    entry = list_library(library)[0]
    with pytest.raises(ValueError, match="expected names of letters"):
        replace(entry, set=odd, path=f"{odd}/one.json.gz")
    with pytest.raises(ValueError, match="expected names of letters"):
        replace(entry, name=odd, path=f"set/{odd}.json.gz")


def test_names_are_unique(library: Path) -> None:
    entry = list_library(library)[0]
    write_index(library, [entry, entry])
    with pytest.raises(InstanceFileError, match="got 'one' twice"):
        list_library(library)


def test_index_without_a_plan_says_so(library: Path) -> None:
    write_index(library, [replace(list_library(library)[0], best_ns=None, best_by=None, plan_sha256=None)])
    with pytest.raises(ValueError, match="'one' without one"):
        load_library_plan("one", library)


def test_index_is_checksummed(library: Path) -> None:
    document = json.loads((library / "index.json").read_text())
    document["entries"][0]["bounds"]["upper_ns"] -= 1
    (library / "index.json").write_bytes(msgspec.json.encode(document))
    with pytest.raises(InstanceFileError, match="sha256"):
        list_library(library)


def test_an_older_index_is_refused(library: Path) -> None:
    document = json.loads((library / "index.json").read_text())
    (library / "index.json").write_bytes(sealed({**document, "version": 1}))
    with pytest.raises(InstanceFileError, match="version: expected 2, got 1.*older prescope"):
        list_library(library)


def test_a_plan_is_listed_whole_or_not_at_all(library: Path) -> None:
    with pytest.raises(ValueError, match="all or none of best_ns, best_by and plan_sha256"):
        replace(list_library(library)[0], best_by=None)


def test_tables_of_instances_leave_horizons_out() -> None:
    root = Path(__file__).resolve().parents[2]
    chosen = runpy.run_path(str(root / "benchmarks" / "library_check.py"))["instances"]
    names = {entry.name for entry in list_library() if entry.steps is None}
    assert {entry.name for entry in chosen([])} == names
    assert {entry.set for entry in chosen(["disk", "horizons"])} == {"disk"}
    with pytest.raises(SystemExit, match="expected sets with instances, got horizons"):
        chosen(["horizons"])
