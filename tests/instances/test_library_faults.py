"""Whatever does not hold of a library and its index is found or refused."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from file_mutants import sealed
from stored_instance import HOST, INSTANCE, store_instance

from prescope.formulation import Instance, LayerPlan, Plan
from prescope.instances import (
    Bounds,
    InstanceFileError,
    list_library,
    load_library_instance,
    load_library_plan,
    verify_library,
    write_index,
    write_instance,
    write_plan,
)

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


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A library of one instance, with a plan that runs everything on the host."""
    root = tmp_path / "library"
    write_index(root, [store_instance(root, "set", INSTANCE, HOST, lower_bound_ns=1000)])
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
