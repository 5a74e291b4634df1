"""A sweep: what it writes, how it goes on after a crash, and what it refuses."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from bench_cases import case, cases, foretold, instance, plan_of

from prescope.bench import (
    BenchRow,
    BenchSettings,
    Hints,
    Kind,
    Replan,
    RowStatus,
    check_runs,
    find_cases,
    read_rows,
    run_bench,
    summarise,
)
from prescope.bench.row_csv import from_cells, header, to_line
from prescope.bench.row_file import ROWS
from prescope.bench.sweep import PLANS, plan_file_name
from prescope.bench.tables import gap_cells, troubles
from prescope.bench.task import RunOutcome, RunTask, run_task
from prescope.formulation import Plan, makespan_ns
from prescope.instances import Bounds, InstanceFile, Provenance, read_plan, write_instance
from prescope.solver import SolverError, UnsuitableInstanceError

CASES = cases()
TWO = BenchSettings(methods=("presched", "on-demand"), seeds=(0, 1))


def without_times(rows: Iterable[BenchRow]) -> list[BenchRow]:
    return [replace(row, plan_time_ns=None, bound_time_ns=None, plan_sha256="") for row in rows]


class Counted:
    """Runs here, counts, and stops like a killed process after so many runs."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.ran: list[RunTask] = []
        self._left = stop_after

    def __call__(self, tasks: Iterable[RunTask]) -> Iterator[RunOutcome]:
        for task in tasks:
            if self._left == len(self.ran):
                raise KeyboardInterrupt
            self.ran.append(task)
            yield run_task(task)


def test_one_row_per_run_and_the_plan_beside_it(tmp_path: Path) -> None:
    outcome = run_bench(CASES, TWO, tmp_path)
    assert outcome.ran == 12 and len({row.key for row in outcome.rows}) == 12
    assert read_rows(tmp_path) == list(outcome.rows)
    for row in outcome.rows:
        known = next(one.instance for one in CASES if one.name == row.instance)
        stored = read_plan(tmp_path / PLANS / row.plan)
        assert makespan_ns(known, stored.plan) == row.makespan_ns >= row.lower_bound_ns
        assert row.gap_to_bound == pytest.approx(row.makespan_ns / row.lower_bound_ns - 1, abs=1e-12)
        assert (row.status is RowStatus.OPTIMAL) == (row.makespan_ns == row.lower_bound_ns)
        assert row.plan_time_ns > 0 and row.kind is Kind.PLANNED and row.error == ""


def test_a_killed_sweep_goes_on_where_it_was(tmp_path: Path) -> None:
    whole = run_bench(CASES, TWO, tmp_path / "whole")
    for stop_after in (0, 1, 7):
        folder = tmp_path / str(stop_after)
        with pytest.raises(KeyboardInterrupt):
            run_bench(CASES, TWO, folder, engine=Counted(stop_after))
        assert len(read_rows(folder)) == stop_after
        again = Counted()
        assert run_bench(CASES, TWO, folder, engine=again).ran == 12 - stop_after == len(again.ran)
        assert without_times(read_rows(folder)) == without_times(whole.rows)
    assert run_bench(CASES, TWO, tmp_path / "whole").ran == 0


def test_a_torn_last_line_is_run_again(tmp_path: Path) -> None:
    whole = run_bench(CASES[:1], TWO, tmp_path)
    data = (tmp_path / ROWS).read_bytes()
    last = data.rfind(b"\n", 0, -1) + 1
    for cut in {last, last + 1, len(data) - 1, len(header()), 10, 0}:
        (tmp_path / ROWS).write_bytes(data[:cut])
        found = len(read_rows(tmp_path))
        assert found < 4
        assert run_bench(CASES[:1], TWO, tmp_path).ran == 4 - found
        assert without_times(read_rows(tmp_path)) == without_times(whole.rows)


def test_every_damaged_line_is_named(tmp_path: Path) -> None:
    run_bench(CASES[:1], TWO, tmp_path)
    lines = (tmp_path / ROWS).read_text().splitlines(keepends=True)
    for broken in (
        [*lines[:2], "a,b\n", *lines[2:]],
        [*lines, lines[-1]],
        [lines[0].replace("method", "procedure"), *lines[1:]],
        [*lines[:1], lines[1].replace(",planned,", ",imagined,"), *lines[2:]],
        [*lines[:1], lines[1].replace(",0,default,", ",x,default,"), *lines[2:]],
    ):
        (tmp_path / ROWS).write_text("".join(broken))
        with pytest.raises(ValueError, match=ROWS):
            read_rows(tmp_path)
        with pytest.raises(ValueError, match=ROWS):
            run_bench(CASES[:1], TWO, tmp_path)


def test_another_sweep_is_refused_unless_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_bench(CASES[:2], TWO, tmp_path)
    other = replace(TWO, methods=("presched", "cpu-only"))
    with pytest.raises(ValueError, match="methods was presched,on-demand and is presched,cpu-only"):
        run_bench(CASES[:2], other, tmp_path)
    with pytest.raises(ValueError, match="instance batch-2 no longer asked for"):
        run_bench(CASES[:1], TWO, tmp_path)
    with pytest.raises(ValueError, match="hints was none and is best"):
        run_bench(CASES[:2], replace(TWO, hints=Hints.BEST), tmp_path)
    changed = (CASES[0], case(instance(7, name="batch-2")))
    with pytest.raises(ValueError, match="instance batch-2 changed"):
        run_bench(changed, TWO, tmp_path)
    # Told so, rows of what changed go and the others stay.
    assert run_bench(changed, TWO, tmp_path, accept_changes=True).ran == 4
    assert run_bench(changed, other, tmp_path, accept_changes=True).ran == 4
    assert len(read_rows(tmp_path)) == 12
    import prescope.bench.sweep as sweep

    newer = replace(sweep.this_machine(), prescope="99.0")
    monkeypatch.setattr(sweep, "this_machine", lambda: newer)
    with pytest.raises(ValueError, match="prescope was .* and is 99.0"):
        run_bench(changed, other, tmp_path)


def test_rows_without_a_sweep_and_a_damaged_sweep_are_refused(tmp_path: Path) -> None:
    run_bench(CASES[:1], TWO, tmp_path)
    for content in ("", "{", "[]", '{"format": "prescope-bench", "version": 2}'):
        (tmp_path / "sweep.json").write_text(content)
        with pytest.raises(ValueError, match="sweep"):
            run_bench(CASES[:1], TWO, tmp_path)
    (tmp_path / "sweep.json").unlink()
    with pytest.raises(ValueError, match="no sweep.json"):
        run_bench(CASES[:1], TWO, tmp_path)


def test_two_sweeps_in_one_folder_are_refused(tmp_path: Path) -> None:
    def during(tasks: Iterable[RunTask]) -> Iterator[RunOutcome]:
        with pytest.raises(ValueError, match="expected .* to be free, got process"):
            run_bench(CASES, TWO, tmp_path)
        yield from map(run_task, tasks)

    run_bench(CASES, TWO, tmp_path, engine=during)
    assert len(read_rows(tmp_path)) == 12


def test_a_run_done_twice_is_one_row(tmp_path: Path) -> None:
    def twice(tasks: Iterable[RunTask]) -> Iterator[RunOutcome]:
        for task in tasks:
            yield run_task(task)
            yield run_task(task)

    run_bench(CASES, TWO, tmp_path, engine=twice)
    assert len(read_rows(tmp_path)) == 12


def broken_method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> BenchRow:
    from prescope.solver.methods.presched import METHOD

    def broken(self: object, *_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(type(METHOD), "plan", broken)
    return run_bench(CASES[:1], BenchSettings(methods=("presched", "dp-fast")), tmp_path).rows[0]


@pytest.mark.parametrize(
    "error", [SystemExit(3), SolverError('out of\n"luck", sorry'), MemoryError(), KeyError("x")]
)
def test_a_broken_solver_is_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    row = broken_method(tmp_path, monkeypatch, error)
    assert row.status is RowStatus.ERROR and row.failed and row.makespan_ns is None and row.plan == ""
    assert row.error.startswith(f"{type(error).__name__}: ") and "test_bench_sweep.py:" in row.error
    stored = read_rows(tmp_path)
    assert [one.status.value == "error" for one in stored] == [True, False]
    assert stored[0].error == row.error
    monkeypatch.undo()
    settings = BenchSettings(methods=("presched", "dp-fast"))
    assert run_bench(CASES[:1], settings, tmp_path).ran == 0
    assert run_bench(CASES[:1], settings, tmp_path, retry_errors=True).ran == 1
    assert not any(one.failed for one in read_rows(tmp_path))


def test_a_method_that_does_not_apply_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = broken_method(tmp_path, monkeypatch, UnsuitableInstanceError("no host, no rule"))
    assert row.status is RowStatus.UNSUITABLE and not row.failed and row.error == "no host, no rule"
    rows = read_rows(tmp_path)
    assert troubles(rows, []) == [] and check_runs(tmp_path, CASES).faults == ()
    first = summarise(rows)[0]
    assert (first.runs, first.without_plan, first.errors) == (1, 1, 0)
    assert "0/0 (1 without)" in gap_cells(first) and "-" in gap_cells(first)


def test_a_solver_that_says_too_much_leaves_a_readable_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = broken_method(tmp_path, monkeypatch, SolverError("no " * 10**6))
    assert len(row.error) < 3000 and "test_bench_sweep.py:" in row.error
    assert read_rows(tmp_path)[0] == row
    from prescope.bench.task import MAX_INCUMBENTS, _some
    from prescope.solver import Incumbent

    many = tuple(Incumbent(time_ns=n, makespan_ns=10**6 - n) for n in range(10**4))
    kept = _some(many)
    assert len(kept) == MAX_INCUMBENTS and (kept[0], kept[-1]) == (many[0], many[-1])
    assert _some(many[:9]) == many[:9]


def test_what_a_worker_says_is_evaluated_again(tmp_path: Path) -> None:
    def cheating(tasks: Iterable[RunTask]) -> Iterator[RunOutcome]:
        for task in tasks:
            outcome = run_task(task)
            if task.seed:
                yield replace(outcome, plan=Plan(layers=outcome.plan.layers, transfers=()))
            else:
                yield replace(outcome, row=replace(outcome.row, makespan_ns=1))

    rows = run_bench(CASES[:1], replace(TWO, methods=("on-demand",)), tmp_path, engine=cheating).rows
    assert [row.status for row in rows] == [RowStatus.ERROR, RowStatus.ERROR]
    assert all("from the evaluator" in row.error and row.makespan_ns is None for row in rows)
    assert check_runs(tmp_path, CASES).faults == ()


def test_a_plan_below_a_proved_bound_is_a_failure(tmp_path: Path) -> None:
    known = instance()
    wrong = case(known, lower_bound_ns=10**12, lower_bound_by="a mistake")
    (row,) = run_bench([wrong], BenchSettings(methods=("dp-fast",)), tmp_path).rows
    assert row.status is RowStatus.BOUND_VIOLATED and row.failed
    assert (row.lower_bound_ns, row.lower_bound_by) == (10**12, "a mistake")
    assert row.gap_to_bound is not None and row.gap_to_bound < 0


def test_a_proved_optimum_is_the_bound(tmp_path: Path) -> None:
    known = instance()
    bounds = Bounds(optimum_ns=10**9, optimum_by="a", lower_bound_ns=10**8, lower_bound_by="b")
    file = InstanceFile(instance=known, provenance=Provenance(source="test"), bounds=bounds)
    write_instance(tmp_path / "one.json", file)
    (found,) = find_cases([str(tmp_path / "one.json")])
    assert (found.lower_bound_ns, found.lower_bound_by) == (10**9, "a")


def test_hints_and_best_known_plans(tmp_path: Path) -> None:
    known = instance(2)
    told = case(known, best=plan_of(known))
    settings = BenchSettings(methods=("dp",), hints=Hints.BEST)
    (row,) = run_bench([told], settings, tmp_path).rows
    assert row.hint == "used"
    assert row.best_known_ns == plan_of(known).info.makespan_ns
    assert row.gap_to_best is not None and row.gap_to_best <= 0


@pytest.mark.parametrize("replan", Replan)
def test_predicted_demand_is_scored_under_the_true_one(tmp_path: Path, replan: Replan) -> None:
    known = foretold(instance(2), name="foretold")
    settings = BenchSettings(methods=("presched", "gate:presched"), replan=replan)
    rows = run_bench([case(known)], settings, tmp_path).rows
    assert rows[0].kind is (Kind.REALISED if replan is Replan.GATES else Kind.FOLLOWED)
    assert rows[1].kind is Kind.REALISED
    clairvoyant = plan_of(replace(known, predicted=None), "dp").info
    for row in rows:
        plan = read_plan(tmp_path / PLANS / row.plan).plan
        assert row.makespan_ns == makespan_ns(known, plan) >= clairvoyant.lower_bound_ns == row.lower_bound_ns
        assert row.makespan_ns >= clairvoyant.makespan_ns


def test_gate_policies_need_a_prediction(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="predicted demand for gate:dp, got batch-1"):
        run_bench(CASES, BenchSettings(methods=("gate:dp",)), tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"methods": ()}, "at least one of methods"),
        ({"methods": ("dp", "dp")}, "distinct methods, got 'dp' twice"),
        ({"methods": ("simplex",)}, "expected a method among"),
        ({"methods": ("gate:simplex",)}, "expected gate: with one of"),
        ({"seeds": (-1,)}, "seed"),
        ({"limits": ("1h",)}, "expected a limit such as"),
        ({"limits": ("det:",)}, "expected a limit such as"),
        ({"limits": ("0s",)}, "wall_ns"),
    ],
)
def test_settings_refuse(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(TWO, **change)  # type: ignore[arg-type]


def test_file_names_are_safe_and_differ() -> None:
    from prescope.bench import RunKey

    keys = [
        RunKey(a, b, "default", s)
        for a in ("../x/y", "..-x-y", "n" * 500)
        for b in ("m", "M")
        for s in (0, 1)
    ]
    names = [plan_file_name(key) for key in keys]
    assert len({name.lower() for name in names}) == len(keys)
    assert all("/" not in name and not name.startswith("/") and len(name) < 200 for name in names)


def test_rows_survive_the_file(tmp_path: Path) -> None:
    import csv

    (row,) = run_bench(CASES[:1], BenchSettings(methods=("dp-fast",)), tmp_path).rows
    strange = replace(row, error='a, "b"; c', instance="ü, x", gap_to_best=-0.1 / 3, incumbents="1:2 3:4")
    (cells,) = csv.reader([to_line(strange)])
    assert from_cells(cells) == strange
