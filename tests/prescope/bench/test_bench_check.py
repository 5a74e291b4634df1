"""Every way in which a row and its plan can disagree is found, and none is invented."""

import csv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from bench_cases import case, cases, foretold, instance, plan_of

from prescope.bench import BenchRow, BenchSettings, RowStatus, check_runs, read_rows, run_bench
from prescope.bench.row_file import ROWS, rewrite_rows
from prescope.bench.sweep import PLANS, plan_file_name
from prescope.formulation import LayerPlan, Plan
from prescope.instances import write_plan

CASES = cases(2)
SETTINGS = BenchSettings(methods=("presched", "dp-fast"))
FORETOLD = case(foretold(instance(2), name="foretold"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    run_bench((*CASES, FORETOLD), SETTINGS, tmp_path)
    return tmp_path


def problem(folder: Path, first: Callable[[BenchRow], BenchRow]) -> str:
    """What is said of the first row when it is changed so; of the others nothing may be said."""
    rows = read_rows(folder)
    rewrite_rows(folder, [first(rows[0]), *rows[1:]])
    outcome = check_runs(folder, (*CASES, FORETOLD))
    assert len(outcome.faults) == 1 and outcome.checked == len(rows) - 1
    return outcome.faults[0].problem


def test_an_honest_folder_passes(folder: Path) -> None:
    outcome = check_runs(folder, (*CASES, FORETOLD))
    assert (outcome.checked, outcome.faults, outcome.trusted) == (6, (), 0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda row: replace(row, makespan_ns=row.makespan_ns - 1), "from the evaluator"),
        (lambda row: replace(row, lower_bound_ns=row.makespan_ns + 1), "row's lower bound"),
        (lambda row: replace(row, gap_to_bound=row.gap_to_bound / 2), "gap_to_bound"),
        (lambda row: replace(row, gap_to_best=0.0), "gap_to_best"),
        (lambda row: replace(row, status=RowStatus.OPTIMAL), "status"),
        (lambda row: replace(row, plan_sha256="0" * 64), "checksum"),
        (lambda row: replace(row, plan="/etc/passwd"), "expected the plan in"),
        (lambda row: replace(row, plan="", makespan_ns=None), "expected a makespan"),
        (lambda row: replace(row, instance_sha256="0" * 64), "digest"),
        (lambda row: replace(row, instance="another"), "'another' in the library"),
        (lambda row: replace(row, seed=9), "expected the plan in"),
    ],
)
def test_a_changed_row_is_refused(folder: Path, change: Callable[[BenchRow], BenchRow], said: str) -> None:
    assert said in problem(folder, change)


def without_a_gap(row: BenchRow) -> BenchRow:
    return replace(row, lower_bound_ns=row.makespan_ns, gap_to_bound=0.0, status=RowStatus.OPTIMAL)


def test_a_bound_that_nobody_can_prove_is_refused(folder: Path) -> None:
    assert "proved again" in problem(folder, without_a_gap)


def test_a_bound_on_the_word_of_an_exact_method_is_counted(folder: Path) -> None:
    row = read_rows(folder)[0]
    claimed = replace(without_a_gap(row), method="cp-sat-table")
    claimed = replace(claimed, plan=plan_file_name(claimed.key))
    (folder / PLANS / row.plan).rename(folder / PLANS / claimed.plan)
    rewrite_rows(folder, [claimed])
    outcome = check_runs(folder, CASES)
    assert (outcome.checked, outcome.faults, outcome.trusted) == (1, (), 1)


def test_a_missing_damaged_or_swapped_plan_is_refused(folder: Path) -> None:
    row = read_rows(folder)[0]
    path = folder / PLANS / row.plan
    data = path.read_bytes()
    for content in (data[:-1], b"", data[::-1]):
        path.write_bytes(content)
        assert problem(folder, lambda row: row)
    path.unlink()
    assert problem(folder, lambda row: row)
    other = next(one for one in read_rows(folder) if one.instance != row.instance)
    path.write_bytes((folder / PLANS / other.plan).read_bytes())
    assert "checksum" in problem(folder, lambda row: row)


def test_a_plan_for_another_problem_or_infeasible_is_refused(folder: Path) -> None:
    known = CASES[0].instance
    row = read_rows(folder)[0]
    path = folder / PLANS / row.plan
    digest = write_plan(path, plan_of(CASES[1].instance), CASES[1].instance)
    assert "expected instance" in problem(folder, lambda row: replace(row, plan_sha256=digest))
    empty = Plan(layers=tuple(LayerPlan() for _ in range(known.layers)))
    digest = write_plan(path, empty, known)
    assert "expected" in problem(folder, lambda row: replace(row, plan_sha256=digest))


def test_the_librarys_bound_counts_too(folder: Path) -> None:
    made = read_rows(folder)[0].makespan_ns
    stricter = replace(CASES[0], lower_bound_ns=made + 1, lower_bound_by="test")
    faults = check_runs(folder, (stricter, CASES[1], FORETOLD)).faults
    assert {fault.instance for fault in faults} == {"batch-1"}
    assert "library's lower bound" in faults[0].problem


def test_a_table_of_another_shape_is_refused_whole(folder: Path) -> None:
    path = folder / ROWS
    for damage in ("\x00", '"' + "x" * csv.field_size_limit() + '"', "\udcff"):
        lines = path.read_text().splitlines()
        path.write_text("\n".join([*lines, damage, ""]), errors="surrogateescape")
        with pytest.raises(ValueError, match=ROWS):
            check_runs(folder, CASES)
        path.write_text("\n".join([*lines, ""]))
