"""The library that comes with the package, and the checks that guard it."""

import hashlib
import json
import runpy
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from file_mutants import sealed

from prescope.formulation import LayerPlan, Plan, PlanInfo, makespan_ns
from prescope.instances import (
    Bounds,
    InstanceFile,
    InstanceFileError,
    LibraryEntry,
    Provenance,
    library_root,
    list_library,
    load_library_instance,
    load_library_plan,
    synthetic_instance,
    verify_library,
    write_index,
    write_instance,
    write_plan,
)
from prescope.instances.library_sets import synthetic_set, tiny_real_set, tiny_trace
from prescope.tiny import tiny_model_path

FIELDS = {
    "name",
    "set",
    "path",
    "layers",
    "experts",
    "tokens",
    "optimum_ns",
    "lower_bound_ns",
    "best_ns",
    "best_by",
    "sha256",
}


def test_everything_in_the_library_is_as_the_index_says() -> None:
    seen: list[tuple[int, int, str]] = []
    faults = verify_library(progress=lambda number, total, entry: seen.append((number, total, entry.name)))
    assert faults == ()
    entries = list_library()
    assert seen == [(number, len(entries), entry.name) for number, entry in enumerate(entries)]


def test_library_is_small_and_every_set_says_what_it_is() -> None:
    files = [path for path in library_root().rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 3 * 10**6
    for name in {entry.set for entry in list_library()}:
        text = (library_root() / name / "README.md").read_text()
        assert "Rounding" in text and "Rebuild" in text


def test_bounds_are_tight_and_named() -> None:
    for entry in list_library():
        bounds = load_library_instance(entry.name).bounds
        assert bounds.lower_bound_by and entry.lower_bound_ns and entry.best_ns
        assert (entry.best_ns - entry.lower_bound_ns) / entry.lower_bound_ns <= 0.01
        assert (entry.optimum_ns == entry.best_ns) == (entry.best_ns == entry.lower_bound_ns)


def test_synthetic_set_is_what_its_recipe_makes() -> None:
    stored = {entry.name for entry in list_library() if entry.set == "synthetic"}
    made = {file.instance.name: file for file in synthetic_set()}
    assert set(made) == stored
    for name in sorted(made)[::7]:
        again = load_library_instance(name)
        assert again.instance == made[name].instance, "the recipe changed: give it a new version"
        assert replace(again.provenance, created_by="x") == replace(made[name].provenance, created_by="x")


def test_tiny_real_set_is_what_its_trace_makes() -> None:
    stored = {entry.name for entry in list_library() if entry.set == "tiny-real"}
    made = {file.instance.name: file for file in tiny_real_set(tiny_trace())}
    assert set(made) == stored
    for name in sorted(made)[::3]:
        again = load_library_instance(name)
        assert again.instance == made[name].instance
        assert replace(again.provenance, created_by="x") == replace(made[name].provenance, created_by="x")


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
    with pytest.raises(ValueError, match=r"near: .*mixtral-8x7b@lab-b1-s0"):
        load_library_instance("mixtral-8x7b@lab-b1-s1")


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A library of one instance, with a plan that runs everything on the host."""
    root = tmp_path / "library"
    (root / "set").mkdir(parents=True)
    instance = synthetic_instance("mixtral-8x7b", "lab", 1, 0, name="one")
    cpu = [LayerPlan(cpu=tuple(row.nonzero()[0].tolist())) for row in instance.demand.counts]
    cost_ns = makespan_ns(instance, Plan(layers=tuple(cpu)))
    plan = Plan(layers=tuple(cpu), info=PlanInfo(method="cpu-only", makespan_ns=cost_ns))
    write_plan(root / "set" / "one.plan.json.gz", plan, instance)
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
        optimum_ns=None,
        lower_bound_ns=1000,
        best_ns=cost_ns,
        best_by="cpu-only",
        sha256=write_instance(root / "set" / "one.json.gz", file),
    )
    write_index(root, [entry])
    assert verify_library(root) == ()
    return root


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
    "plan not listed": (
        {"best_ns": None, "best_by": None},
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
    write_plan(path, wrong, file.instance)
    assert f"expected {claimed - 1} ns as the plan claims, got {claimed} ns" in faults(library)[0]
    write_plan(path, best.plan, replace(file.instance, slots=5))
    assert "expected instance 'one' with checksum" in faults(library)[0]
    infeasible = replace(best.plan, layers=(LayerPlan(cpu=(0,)),) * 32)
    write_plan(path, infeasible, file.instance)
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
    "path", ["../one.json.gz", "/set/one.json.gz", "set/../one.json.gz", "set/one.json", "."]
)
def test_index_cannot_point_outside(library: Path, path: str) -> None:
    with pytest.raises(ValueError, match="expected a path of the form"):
        replace(list_library(library)[0], path=path)
    document = json.loads((library / "index.json").read_text())
    document["entries"][0]["path"] = path
    (library / "index.json").write_bytes(sealed(document))
    with pytest.raises(InstanceFileError, match="entries: expected a path of the form"):
        list_library(library)


def test_set_cannot_point_outside(library: Path) -> None:
    with pytest.raises(ValueError, match="inside the library"):
        replace(list_library(library)[0], set="..", path="../one.json.gz")


def test_names_are_unique(library: Path) -> None:
    entry = list_library(library)[0]
    write_index(library, [entry, entry])
    with pytest.raises(InstanceFileError, match="got 'one' twice"):
        list_library(library)


def test_index_without_a_plan_says_so(library: Path) -> None:
    write_index(library, [replace(list_library(library)[0], best_ns=None, best_by=None)])
    with pytest.raises(ValueError, match="'one' without one"):
        load_library_plan("one", library)


def test_index_is_checksummed(library: Path) -> None:
    document = json.loads((library / "index.json").read_text())
    document["entries"][0]["best_ns"] -= 1
    (library / "index.json").write_bytes(msgspec.json.encode(document))
    with pytest.raises(InstanceFileError, match="sha256"):
        list_library(library)
