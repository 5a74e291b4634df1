"""Horizons of a library: better plans go in, and their bounds are proved again."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from bench_horizons import SEEDS, horizon_of

from prescope.bench import BenchSettings, Kind, find_cases, run_bench
from prescope.bench.best import update_library
from prescope.bench.pairs import plan_pair
from prescope.formulation.horizon_evaluator import evaluate_horizon
from prescope.instances import (
    Bounds,
    HorizonFile,
    HorizonPlanFile,
    LibraryEntry,
    Provenance,
    list_library,
    load_library_horizon,
    load_library_horizon_plan,
    verify_library,
    write_horizon,
    write_horizon_plan,
    write_index,
)
from prescope.library_check import check_library
from prescope.solver import Limits
from prescope.solver.residency import horizon_bound
from prescope.solver.residency.prove import BY_FLOWS, prove_horizon_bounds


@pytest.mark.parametrize(
    ("bounds", "problem"),
    [
        ({}, "expected a lower bound, got none"),
        ({"lower_bound_ns": 1, "lower_bound_by": "me"}, "expected lower_bound_by to be"),
        (
            {"lower_bound_ns": 0, "lower_bound_by": BY_FLOWS, "optimum_ns": 10, "optimum_by": "me"},
            "expected an optimum where plan and bound meet, got optimum 10",
        ),
    ],
)
def test_bounds_of_a_horizon_that_are_not_proved_are_refused(bounds, problem):
    horizon = horizon_of(SEEDS[0])
    plan, _ = plan_pair(horizon, "static+dp-fast", limits=Limits(), seed=0)
    stored = HorizonPlanFile(plan=plan, horizon_name=horizon.name, horizon_sha256="")
    file = HorizonFile(horizon=horizon, provenance=Provenance(source="test"), bounds=Bounds(**bounds))
    with pytest.raises(ValueError, match=problem):
        prove_horizon_bounds(file, stored)


@pytest.fixture
def library(tmp_path):
    """A library with one horizon whose best known plan is a weak one."""
    root = tmp_path / "library"
    (root / "rows").mkdir(parents=True)
    horizon = horizon_of(SEEDS[1])
    bound_ns = horizon_bound(horizon)[0]
    bounds = Bounds(lower_bound_ns=bound_ns, lower_bound_by=BY_FLOWS)
    file = HorizonFile(horizon=horizon, provenance=Provenance(source="test"), bounds=bounds)
    sha256 = write_horizon(root / "rows" / f"{horizon.name}.json.gz", file)
    plan, _ = plan_pair(horizon, "static+cpu-only", limits=Limits(), seed=0)
    entry = LibraryEntry(
        name=horizon.name,
        set="rows",
        path=f"rows/{horizon.name}.json.gz",
        layers=horizon.layers,
        experts=horizon.experts,
        tokens=max(demand.batch_tokens for demand in horizon.demands),
        slots=horizon.slots,
        optimum_ns=None,
        optimum_by=None,
        lower_bound_ns=bound_ns,
        lower_bound_by=BY_FLOWS,
        best_ns=evaluate_horizon(horizon, plan).total_ns,
        best_by=plan.method,
        sha256=sha256,
        plan_sha256=write_horizon_plan(root / "rows" / f"{horizon.name}.plan.json.gz", plan, horizon),
        steps=horizon.steps,
    )
    write_index(root, [entry])
    return root


def test_a_better_plan_goes_into_the_library(library, tmp_path):
    assert verify_library(library) == ()
    (old,) = list_library(library)
    cases = find_cases(["rows"], library=library)
    settings = BenchSettings(methods=("static+dp-fast", "flow+dp-fast", "static+expected"))
    outcome = run_bench(cases, settings, tmp_path / "out")
    best_ns = min(row.makespan_ns for row in outcome.rows[:2])
    assert best_ns < old.best_ns and outcome.rows[0].own_bound_ns is None
    (improved,) = update_library(tmp_path / "out", library=library)
    assert (improved.old_ns, improved.new_ns) == (old.best_ns, best_ns)
    (new,) = list_library(library)
    assert new.best_ns == best_ns and new.steps == 4
    assert load_library_horizon_plan(new.name, library).plan.method == new.best_by
    assert verify_library(library) == () and update_library(tmp_path / "out", library=library) == ()


def test_a_plan_made_without_knowing_demand_is_not_offered(library, tmp_path):
    (old,) = list_library(library)
    outcome = run_bench(
        find_cases(["rows"], library=library), BenchSettings(methods=("static+expected",)), tmp_path / "out"
    )
    assert outcome.rows[0].kind is Kind.REALISED and outcome.rows[0].makespan_ns < old.best_ns
    assert update_library(tmp_path / "out", library=library) == ()


def test_the_library_proves_the_bounds_of_horizons_again(library):
    (check,) = check_library(library)
    assert (check.problem, check.proved_by) == (None, BY_FLOWS)
    (entry,) = list_library(library)
    file = load_library_horizon(entry.name, library)
    write_index(library, [replace(entry, steps=5)])
    assert "steps: expected 5 as the index says, got 4" in verify_library(library)[0].problem
    write_index(library, [entry])
    plan, other = load_library_horizon_plan(entry.name, library).plan, replace(file.horizon, lookahead=99)
    foreign = write_horizon_plan(library / entry.plan_path, plan, other)
    write_index(library, [replace(entry, plan_sha256=foreign)])
    assert "expected horizon 'tiny-13' with checksum" in verify_library(library)[0].problem
    write_horizon_plan(library / entry.plan_path, plan, file.horizon)
    write_index(library, [entry])
    higher = Bounds(lower_bound_ns=file.bounds.lower_bound_ns + 1, lower_bound_by=BY_FLOWS)
    sha256 = write_horizon(library / entry.path, replace(file, bounds=higher))
    write_index(library, [replace(entry, lower_bound_ns=higher.lower_bound_ns, sha256=sha256)])
    assert verify_library(library) == ()
    (check,) = check_library(library)
    assert "expected to prove" in check.problem
    (library / entry.plan_path).unlink()
    (fault,) = verify_library(library)
    assert "readable file" in fault.problem


def test_an_index_of_instances_alone_has_no_steps():
    index = json.loads((Path(__file__).resolve().parents[3] / "instances/library/index.json").read_text())
    assert all(("steps" in entry) == (entry["set"] == "horizons") for entry in index["entries"])
