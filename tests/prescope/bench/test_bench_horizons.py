"""`prescope bench` on horizons: pairs of rule and planner, their plans, checks and gains."""

import shutil
from dataclasses import replace

import pytest
from bench_horizons import PAIRS, SEEDS, horizon_of, write_files
from tiny_horizons import tiny_horizon

from prescope.bench import (
    BenchSettings,
    Kind,
    RowStatus,
    check_runs,
    find_cases,
    pairs,
    read_rows,
    run_bench,
    summarise,
)
from prescope.bench.horizon_shares import Gains, gains, peers
from prescope.bench.pairs import check_pair, gate_policy, looks_ahead, plan_pair, split_pair
from prescope.bench.row_file import ROWS
from prescope.bench.sweep import PLANS
from prescope.formulation.horizon_evaluator import evaluate_horizon
from prescope.instances import HorizonFile, Provenance, read_horizon_plan, write_horizon, write_horizon_plan
from prescope.solver import Limits, get_method
from prescope.solver.residency import horizon_bound


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """Cases and the folder of a sweep over them."""
    folder = tmp_path_factory.mktemp("sweep")
    cases = find_cases(write_files(folder))
    outcome = run_bench(cases, BenchSettings(methods=PAIRS), folder / "out")
    return cases, folder / "out", outcome


@pytest.fixture
def mine(swept, tmp_path):
    """A copy of the sweep that a test may spoil."""
    cases, folder, _ = swept
    shutil.copytree(folder, tmp_path / "out")
    return cases, tmp_path / "out"


def test_every_pair_has_a_row_that_its_plan_bears_out(swept):
    cases, folder, outcome = swept
    assert outcome.ran == len(outcome.rows) == len(PAIRS) * len(SEEDS)
    horizons = {case.name: case.instance for case in cases}
    for row in outcome.rows:
        assert row.status in (RowStatus.OPTIMAL, RowStatus.FEASIBLE), row.error
        horizon = horizons[row.instance]
        schedule = evaluate_horizon(horizon, read_horizon_plan(folder / PLANS / row.plan).plan)
        assert (row.makespan_ns, row.hits, row.uses, row.copied_bytes) == (
            schedule.total_ns, schedule.hits, schedule.uses, schedule.copied_bytes
        )  # fmt: skip
        assert (row.steps, row.layers, row.experts) == (4, horizon.layers, horizon.experts)
        assert row.lower_bound_ns == horizon_bound(horizon)[0] <= row.makespan_ns
        assert row.kind is (Kind.REALISED if row.method == "static+expected" else Kind.PLANNED)
    checked = check_runs(folder, cases)
    assert (checked.checked, checked.faults, checked.trusted) == (len(outcome.rows), (), 0)


def test_it_goes_on_where_it_was(mine):
    cases, folder = mine
    again = run_bench(cases, BenchSettings(methods=PAIRS), folder)
    assert again.ran == 0
    lines = (folder / ROWS).read_text().splitlines(keepends=True)
    (folder / ROWS).write_text("".join(lines[:-2]) + lines[-1][:20])
    assert run_bench(cases, BenchSettings(methods=PAIRS), folder).ran == 2
    assert check_runs(folder, cases).faults == ()


@pytest.mark.parametrize(
    ("column", "problem"),
    [
        ("makespan_ns", "as the row says"),
        ("hits", "expected steps, hits, uses and copied bytes"),
        ("lower_bound_ns", "expected at least the row's lower bound|that can be proved again"),
        ("plan_sha256", "expected a plan with checksum"),
    ],
)
def test_a_row_that_its_plan_does_not_bear_out_is_refused(mine, column, problem):
    cases, folder = mine
    first = read_rows(folder)[0]
    value = str(getattr(first, column))
    other = "0" * 64 if column == "plan_sha256" else str(int(value) + 1)
    lines = (folder / ROWS).read_text().splitlines(keepends=True)
    cells = lines[1].split(",")
    cells[lines[0].split(",").index(column)] = other
    if column == "lower_bound_ns":
        # The gap follows the row's own bound: only proving the bound again shows the lie.
        gap = (first.makespan_ns - int(other)) / int(other)
        cells[lines[0].split(",").index("gap_to_bound")] = repr(gap)
    (folder / ROWS).write_text("".join([lines[0], ",".join(cells), *lines[2:]]))
    faults = check_runs(folder, cases).faults
    assert [fault.instance for fault in faults] == [first.instance]
    assert any(text in faults[0].problem for text in problem.split("|"))


def test_a_plan_with_residents_from_nowhere_is_refused(mine):
    cases, folder = mine
    row = next(row for row in read_rows(folder) if row.method == "static+dp-fast")
    case = next(case for case in cases if case.name == row.instance)
    plan = read_horizon_plan(folder / PLANS / row.plan).plan
    # Everybody resident at once: more than there are places, and never copied.
    everybody = (tuple(range(case.instance.experts)),) * case.instance.layers
    residents = (plan.residents[0], everybody, *plan.residents[2:])
    digest = write_horizon_plan(folder / PLANS / row.plan, replace(plan, residents=residents), case.instance)
    text = (folder / ROWS).read_text()
    (folder / ROWS).write_text(text.replace(row.plan_sha256, digest))
    (fault,) = check_runs(folder, cases).faults
    assert "expected residents of step 1" in fault.problem


def test_a_plan_of_another_horizon_is_refused(mine):
    cases, folder = mine
    row = next(row for row in read_rows(folder) if row.method == "static+dp-fast")
    case = next(case for case in cases if case.name == row.instance)
    plan = read_horizon_plan(folder / PLANS / row.plan).plan
    other = replace(case.instance, lookahead=case.instance.lookahead + 1)
    digest = write_horizon_plan(folder / PLANS / row.plan, plan, other)
    text = (folder / ROWS).read_text()
    (folder / ROWS).write_text(text.replace(row.plan_sha256, digest))
    (fault,) = check_runs(folder, cases).faults
    assert "expected horizon 'tiny-4' with checksum" in fault.problem


def test_gains_are_measured_against_residents_that_never_move(swept):
    _, _, outcome = swept
    found = {group.method: group for group in summarise(outcome.rows)}
    assert found["static+dp-fast"].offline_share in (0.0, None)
    assert all(0 <= group.hit_rate <= 1 for group in found.values())
    # Nothing of this planner knows all demand.
    assert found["static+expected"].offline_share is None
    rows = [row for row in outcome.rows if row.method.endswith("+dp-fast")]
    offline = gains([row for row in rows if row.method.startswith(("belady", "flow"))], peers(rows))
    assert offline is not None and offline.own_ns <= offline.offline_ns


def test_what_can_be_gained_is_what_the_better_of_belady_and_flow_gains(swept):
    _, _, outcome = swept
    base = outcome.rows[0]
    totals = {"static": 100, "belady": 80, "flow": 70, "lru": 90}
    rows = [replace(base, method=f"{rule}+dp", makespan_ns=total) for rule, total in totals.items()]
    # Other planners, limits and seeds are measured against their own.
    rows += [replace(row, **{field: other}, makespan_ns=1000) for row in rows for field, other in
             (("seed", 7), ("limit", "1s"), ("method", row.method + "-fast"))]  # fmt: skip
    assert gains([rows[3]], peers(rows)) == Gains(own_ns=10, offline_ns=30)
    assert Gains(own_ns=10, offline_ns=30).share == pytest.approx(1 / 3)
    assert gains([rows[3]], peers([rows[0], rows[3]])) is None


def test_a_planner_of_known_demand_is_told_no_predictions(monkeypatch):
    told = []
    planner = get_method("dp-fast")

    class Listening:
        def plan(self, instance, **options):
            told.append(instance.predicted)
            return planner.plan(instance, **options)

    monkeypatch.setattr(pairs, "get_method", lambda name: Listening())
    plan_pair(horizon_of(SEEDS[0]), "static+dp-fast", limits=Limits(), seed=0)
    assert told == [None] * 4


@pytest.mark.parametrize(
    ("methods", "problem"),
    [
        (("dp",), "expected RULE\\+PLANNER such as static\\+dp-fast for the horizon tiny-4"),
        (("magic+dp",), "expected a residency rule among"),
        (("static+magic",), "expected a method among .*; or a gate policy"),
        (("static+gate:magic",), "expected gate: with one of"),
        (("static+",), "expected RULE\\+PLANNER"),
    ],
)
def test_methods_that_do_not_fit_are_refused(tmp_path, methods, problem):
    cases = find_cases(write_files(tmp_path))
    with pytest.raises(ValueError, match=problem):
        run_bench(cases, BenchSettings(methods=methods), tmp_path / "out")


def test_a_pair_is_none_of_an_instance(tmp_path):
    cases = find_cases(["mixtral-8x7b@a100-pcie4-b1-s0"])
    with pytest.raises(ValueError, match="expected horizons for the method 'static\\+dp'"):
        run_bench(cases, BenchSettings(methods=("static+dp",)), tmp_path / "out")


def test_what_a_horizon_lacks_is_a_row_and_no_error(tmp_path):
    bare = tiny_horizon(4, 3, host=True)
    path = tmp_path / "bare.json"
    write_horizon(path, HorizonFile(horizon=bare, provenance=Provenance(source="test")))
    methods = ("learned+dp-fast", "static+expected", "static+dp-fast")
    outcome = run_bench(find_cases([str(path)]), BenchSettings(methods=methods), tmp_path / "out")
    learned, expected, static = outcome.rows
    assert learned.status is expected.status is RowStatus.UNSUITABLE
    assert "history" in learned.error and "predictions" in expected.error
    assert static.status in (RowStatus.FEASIBLE, RowStatus.OPTIMAL)


def test_names_of_pairs():
    assert split_pair("learned+gate:dp") == ("learned", "gate:dp")
    assert (
        gate_policy("dp") is None and gate_policy("gate:dp") == "dp" and gate_policy("expected") == "expected"
    )
    assert looks_ahead("static+dp") and looks_ahead("belady+expected") and not looks_ahead("lru+expected")
    check_pair("flow+gate:presched")
