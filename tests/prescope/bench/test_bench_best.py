"""Better plans reach the library with proof, and nothing else does."""

import fcntl
import os
from dataclasses import replace
from pathlib import Path

import pytest
from bench_cases import cases, foretold, instance, plan_of
from json_contract import BenchRun
from stored_instance import store_instance

from prescope.bench import BenchSettings, find_cases, read_rows, run_bench, update_library
from prescope.bench.row_file import rewrite_rows
from prescope.bench.sweep import PLANS
from prescope.formulation import Instance
from prescope.instances import (
    Bounds,
    LibraryEntry,
    list_library,
    load_library_instance,
    load_library_plan,
    verify_library,
    write_index,
    write_instance,
)
from prescope.solver import lower_bound

SETTINGS = BenchSettings(methods=("on-demand", "dp-fast", "dp"))
PREDICTED = foretold(instance(2), name="foretold")


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """Two instances with poor plans, one of them with predictions."""
    root = tmp_path / "library"
    entries = [add(root, known) for known in (cases(1)[0].instance, PREDICTED)]
    write_index(root, entries)
    assert verify_library(root) == ()
    return root


def add(root: Path, known: Instance) -> LibraryEntry:
    plan = plan_of(known, "on-demand")
    return store_instance(root, "small", known, plan, lower_bound_ns=lower_bound(known))


def test_the_shortest_plan_is_stored_with_proof(library: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    old = {entry.name: entry for entry in list_library(library)}
    rows = run_bench(find_cases(["small"], library=library), SETTINGS, out).rows
    (found,) = update_library(out, library=library)
    shortest = min(row.makespan_ns for row in rows if row.instance == "batch-1")
    assert (found.instance, found.old_ns, found.new_ns) == ("batch-1", old["batch-1"].best_ns, shortest)
    assert found.lower_bound_ns <= found.new_ns < found.old_ns
    assert verify_library(library) == ()
    new = {entry.name: entry for entry in list_library(library)}
    assert new["foretold"] == old["foretold"], "a realised plan is none for known demand"
    assert (new["batch-1"].best_ns, new["batch-1"].best_by) == (shortest, found.method)
    plan = load_library_plan("batch-1", library).plan
    assert (plan.info.makespan_ns, plan.info.time_ns) == (shortest, None)
    bounds = load_library_instance("batch-1", library).bounds
    assert (bounds.optimum_ns == shortest) == (shortest == found.lower_bound_ns)
    assert bounds.optimum_ns == new["batch-1"].optimum_ns
    # A second time there is nothing to do.
    before = (library / "index.json").read_bytes()
    assert update_library(out, library=library) == ()
    assert (library / "index.json").read_bytes() == before


def test_a_false_row_a_false_bound_and_another_problem_are_refused(library: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_bench(find_cases(["batch-1"], library=library), SETTINGS, out)
    before = {path: path.read_bytes() for path in library.rglob("*.gz")}
    rows = read_rows(out)
    rewrite_rows(out, [replace(row, makespan_ns=row.makespan_ns - 1) for row in rows])
    with pytest.raises(ValueError, match="from the evaluator"):
        update_library(out, library=library)
    rewrite_rows(out, [replace(row, instance_sha256="0" * 64) for row in rows])
    with pytest.raises(ValueError, match="other content"):
        update_library(out, library=library)
    rewrite_rows(out, rows)
    (entry, other) = list_library(library)
    known = load_library_instance("batch-1", library)
    wrong = Bounds(lower_bound_ns=entry.best_ns - 1, lower_bound_by="a mistake")
    sha256 = write_instance(library / entry.path, replace(known, bounds=wrong))
    changed = replace(entry, sha256=sha256, lower_bound_ns=entry.best_ns - 1, lower_bound_by="a mistake")
    write_index(library, [changed, other])
    with pytest.raises(ValueError, match="proved by a mistake"):
        update_library(out, library=library)
    write_instance(library / entry.path, known)
    assert {path: path.read_bytes() for path in library.rglob("*.gz")} == before


def test_a_damaged_plan_and_a_held_library_are_refused(library: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_bench(find_cases(["batch-1"], library=library), SETTINGS, out)
    holder = os.open(library, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    with pytest.raises(ValueError, match="to be free"):
        update_library(out, library=library)
    os.close(holder)
    for path in (out / PLANS).iterdir():
        path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match="damaged"):
        update_library(out, library=library)


def test_the_command_says_what_it_improved(answer, library: Path, tmp_path: Path) -> None:
    options = ("--library", str(library), "-o", str(tmp_path / "out"), "--update-best")
    ran = answer(BenchRun, "bench", "small", "--methods", "dp-fast", *options)
    assert [one.instance for one in ran.check.improvements] == ["batch-1"]
    assert ran.check.checked == 2 and verify_library(library) == ()
