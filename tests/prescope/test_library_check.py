"""The check of the library: files, plans, and proofs done again."""

from dataclasses import replace
from pathlib import Path

import pytest

from prescope.instances import (
    Bounds,
    LibraryEntry,
    list_library,
    load_library_instance,
    load_library_plan,
    write_index,
    write_instance,
    write_plan,
)
from prescope.library_check import check_library
from prescope.solver.prove_bounds import BY_BOUND, BY_CP_SAT, prove_bounds


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """Two of the smallest instances in a library of their own."""
    entries = [e for e in list_library(sets=["tiny-proved"]) if e.name.startswith("3x3")][:2]
    (tmp_path / "tiny-proved").mkdir()
    for entry in entries:
        store(tmp_path, entry, load_library_instance(entry.name).bounds)
    write_index(tmp_path, entries)
    return tmp_path


def store(root: Path, entry: LibraryEntry, bounds: Bounds) -> LibraryEntry:
    file, plan = load_library_instance(entry.name), load_library_plan(entry.name)
    sha256 = write_instance(root / entry.path, replace(file, bounds=bounds))
    write_plan(root / entry.plan_path, plan.plan, file.instance)
    return replace(
        entry,
        sha256=sha256,
        optimum_ns=bounds.optimum_ns,
        optimum_by=bounds.optimum_by,
        lower_bound_ns=bounds.lower_bound_ns,
        lower_bound_by=bounds.lower_bound_by,
    )


def problem(root: Path, bounds: Bounds) -> str | None:
    first, *others = list_library(root)
    write_index(root, [store(root, first, bounds), *others])
    checks = check_library(root)
    assert [check.problem for check in checks[1:]] == [None] * len(others)
    return checks[0].problem


def test_everything_is_proved_again(library: Path) -> None:
    seen: list[tuple[int, int]] = []
    checks = check_library(library, progress=lambda done, total, _check: seen.append((done, total)))
    assert [(check.problem, check.proved_by) for check in checks] == [(None, BY_CP_SAT)] * 2
    assert [check.name for check in checks] == [entry.name for entry in list_library(library)]
    assert seen == [(1, 2), (2, 2)]
    assert [check.proved_by for check in check_library(library, proofs=False)] == [None, None]


def test_processes_give_the_same(library: Path) -> None:
    alone, together = check_library(library), check_library(library, jobs=2)
    assert [replace(check, time_ns=0) for check in alone] == [replace(check, time_ns=0) for check in together]


def test_a_bound_that_cannot_be_proved_is_found(library: Path) -> None:
    optimum_ns = list_library(library)[0].best_ns or 0
    low = Bounds(lower_bound_ns=optimum_ns - 1, lower_bound_by=BY_CP_SAT)
    assert "expected an optimum where plan and bound meet" in str(problem(library, low))
    ours = Bounds(
        optimum_ns=optimum_ns, optimum_by=BY_BOUND, lower_bound_ns=optimum_ns, lower_bound_by=BY_BOUND
    )
    assert "expected an optimum proved by CP-SAT" in str(problem(library, ours))
    mine = Bounds(lower_bound_ns=optimum_ns, lower_bound_by="me")
    assert "expected lower_bound_by to be" in str(problem(library, mine))
    assert "expected a lower bound, got none" in str(problem(library, Bounds()))


def test_unknown_names_and_sets_are_refused(library: Path) -> None:
    with pytest.raises(ValueError, match="expected names of library instances, got 'x'"):
        check_library(library, names=["x"])
    with pytest.raises(ValueError, match="expected a set among tiny-proved, got 'disc'"):
        check_library(library, sets=["disc"])
    with pytest.raises(ValueError, match="jobs"):
        check_library(library, jobs=0)


def test_files_nobody_listed_come_last(library: Path) -> None:
    (library / "tiny-proved" / "extra.json").write_text("{}")
    assert [check.problem for check in check_library(library, proofs=False)][-1] == (
        "expected the index to list this file, got none"
    )


def test_an_open_bound_is_proved_again_to_the_nanosecond() -> None:
    open_ = [e for e in list_library() if e.optimum_ns is None and e.lower_bound_by == BY_BOUND]
    entry = min(open_, key=lambda e: e.layers * e.experts)
    file, plan = load_library_instance(entry.name), load_library_plan(entry.name).plan
    assert prove_bounds(file, plan) == BY_BOUND
    bounds = replace(file.bounds, lower_bound_ns=entry.lower_bound_ns + 1)
    with pytest.raises(ValueError, match="expected to prove"):
        prove_bounds(replace(file, bounds=bounds), plan)
