"""The compact models as methods: bounds that hold, plans no worse than the start, honest statistics."""

import pytest
from cp_sat_judge import prove_optimum
from tiny_instances import make_instance, seeded

from prescope.formulation import makespan_ns
from prescope.formulation.models.compact_model import Form
from prescope.formulation.models.layer_functions import Tables
from prescope.instances import list_library, load_library_instance, synthetic_instance
from prescope.solver import Limits, Method, Status, lower_bound, solve
from prescope.solver.exact.engines import engines
from prescope.solver.exact.first_plan import Start
from prescope.solver.methods.cp_sat import CpSat
from prescope.solver.methods.dp import LeadDp, Polish
from prescope.solver.methods.milp import Milp

pytest.importorskip("highspy")
WEAK = LeadDp(polish=Polish.NONE)
TREES = [
    Milp(engine=engine, form=form, planner=WEAK, known_bound=False) for engine in engines() for form in Form
]
RELAXED = [
    Milp(engine=engine, relax=True, planner=WEAK, known_bound=False)
    for engine in engines()
    if engine != "cp-sat"
]
PLANS = [
    Milp(tables=Tables.PLAN, planner=WEAK, known_bound=False),
    Milp(tables=Tables.PLAN, engine="cp-sat", planner=WEAK, known_bound=False),
]


def test_no_bound_is_above_a_proven_optimum() -> None:
    tight, methods = 0, [*TREES, *RELAXED, *PLANS]
    for seed in range(26):
        instance = make_instance(
            seeded(seed), max_layers=4, max_experts=4, max_missing=6, predictions=seed % 5 == 0
        )
        optimum = prove_optimum(instance).makespan_ns
        # Every method meets eight of the instances.
        for turn in range(4):
            method = methods[(seed + turn * 3) % len(methods)]
            result = solve(instance, method=method)
            assert result.makespan_ns is not None and result.plan is not None
            assert result.lower_bound_ns <= optimum <= result.makespan_ns
            assert makespan_ns(instance, result.plan) == result.makespan_ns
            proved = result.statistics.proved_bound_ns
            assert proved is None or proved <= optimum, (seed, method)
            tight += proved == optimum
    assert tight > 50


def test_relaxations_are_not_above_their_trees() -> None:
    for seed in range(12):
        instance = make_instance(seeded(seed), max_layers=5, max_experts=6)
        for form in Form:
            tree, relaxed = (
                solve(
                    instance, method=Milp(form=form, relax=relax, planner=WEAK, known_bound=False)
                ).statistics.proved_bound_ns
                for relax in (False, True)
            )
            assert tree is not None and relaxed is not None and relaxed <= tree + 1


def test_plan_tables_claim_a_bound_only_where_they_bound() -> None:
    claims = set()
    for seed in range(30):
        instance = make_instance(seeded(seed), max_experts=6)
        claims.add(solve(instance, method=PLANS[0]).statistics.proved_bound_ns is None)
    assert claims == {True, False}


def test_with_a_short_lookahead_the_bound_is_sharper_than_the_programme_over_layers() -> None:
    instance = synthetic_instance("qwen3-30b-a3b", "lab", 1, 0, lookahead=6)
    result = solve(instance, method=Milp(relax=True, planner=WEAK, known_bound=False))
    assert result.lower_bound_ns > lower_bound(instance) * 1.001
    assert result.makespan_ns is not None and result.lower_bound_ns <= result.makespan_ns


def test_a_start_is_never_lost_and_nothing_may_be_the_start() -> None:
    for seed in range(20):
        instance = make_instance(seeded(seed), max_experts=6)
        first = solve(instance, method=WEAK).makespan_ns
        from_dp = solve(instance, method=Milp(planner=WEAK, known_bound=False))
        alone = solve(instance, method=Milp(start=Start.NOTHING))
        assert from_dp.makespan_ns is not None and first is not None
        assert from_dp.makespan_ns <= first == from_dp.statistics.start_makespan_ns
        assert alone.statistics.start_makespan_ns is None and alone.plan is not None


@pytest.mark.parametrize("method", [Milp(planner=WEAK, known_bound=False), TREES[-1], CpSat(planner=WEAK)])
def test_trajectories_improve_and_end_at_the_result(method: Method) -> None:
    for seed in range(30):
        result = solve(make_instance(seeded(seed), max_experts=6), method=method)
        times = [one.time_ns for one in result.incumbents]
        reached = [one.makespan_ns for one in result.incumbents]
        assert times == sorted(times) and reached == sorted(set(reached), reverse=True)
        assert reached[-1] == result.makespan_ns
        bounds = [one.lower_bound_ns for one in result.bounds]
        assert bounds == sorted(set(bounds)) and all(bound <= reached[-1] for bound in bounds)


def test_one_shot_methods_have_no_trajectory() -> None:
    result = solve(make_instance(seeded(1)), method="dp")
    assert (result.incumbents, result.bounds) == ((), ())


def test_cp_sat_table_is_reproducible_and_stops_in_time() -> None:
    instance = make_instance(seeded(7), max_layers=4, max_experts=6)
    results = [solve(instance, method="cp-sat-table", seed=3) for _ in range(2)]
    assert results[0].makespan_ns == results[1].makespan_ns
    assert results[0].statistics.deterministic_time == results[1].statistics.deterministic_time
    stopped = solve(instance, method="cp-sat-table", limits=Limits(deterministic_time=0.0))
    assert stopped.plan is not None and stopped.status in (Status.OPTIMAL, Status.FEASIBLE)


def test_a_plan_known_to_be_optimal_needs_no_solver() -> None:
    left_out = 0
    for seed in range(30):
        instance = make_instance(seeded(seed), max_experts=6)
        result = solve(instance, method="milp")
        if result.statistics.branches == 0 and result.statistics.patched is None:
            assert result.status is Status.OPTIMAL
            left_out += 1
    assert 0 < left_out


def test_wrong_settings_are_refused() -> None:
    for settings, message in (
        ({"engine": "cbc"}, "expected an engine among"),
        ({"engine": "cp-sat", "relax": True}, "relax=True"),
        ({"nodes": 0}, "expected nodes"),
        ({"relative_gap": -1.0}, "expected relative_gap"),
    ):
        with pytest.raises(ValueError, match=message):
            Milp(**settings)


@pytest.mark.parametrize("method", [CpSat(deterministic_time=0.1), Milp(engine="cp-sat"), Milp()])
def test_a_solver_is_asked_exactly_where_the_dp_plan_misses_the_bound(method: Method) -> None:
    entry = next(entry for entry in list_library(sets=["adversarial"]) if entry.optimum_ns is None)
    missed = load_library_instance(entry.name).instance
    for instance, asked in ((missed, True), (make_instance(seeded(3)), False)):
        assert (solve(instance).status is not Status.OPTIMAL) == asked
        assert (solve(instance, method=method).statistics.proved_bound_ns is not None) == asked
