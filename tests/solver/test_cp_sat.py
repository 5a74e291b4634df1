"""The certifier: reproducible, started from the dp plan, and never the loser of it."""

from dataclasses import replace

import numpy as np
from brute_force import minimum
from cp_sat_judge import prove_optimum
from ortools.sat.python import cp_model
from tiny_instances import make_instance, seeded

from prescope.formulation import CostModel, Demand, Instance, LinearTime, Link, Plan
from prescope.formulation.models.cp_sat_model import build_cp_sat_model
from prescope.solver import HintUse, Limits, Status, solve
from prescope.solver.methods.cp_sat import CpSat
from prescope.solver.methods.dp import LeadDp, Polish

WEAK = CpSat(planner=LeadDp(polish=Polish.NONE))


def test_proves_what_brute_force_finds() -> None:
    for seed in range(40):
        instance = make_instance(seeded(seed), max_layers=3, max_experts=3, max_missing=4)
        result = solve(instance, method=WEAK)
        assert result.status is Status.OPTIMAL
        assert result.makespan_ns == minimum(instance)[0], seed


def test_the_same_seed_gives_the_same_result() -> None:
    instance = replace(make_instance(seeded(7), max_layers=4, max_experts=6), link_ready_ns=5)
    results = [solve(instance, method=WEAK, seed=3) for _ in range(2)]
    first, second = (replace(result.plan, info=None) for result in results if result.plan)  # type: ignore[arg-type]
    assert first == second
    assert results[0].statistics.branches == results[1].statistics.branches


def test_a_hint_is_a_complete_solution_of_the_model() -> None:
    for seed in range(60):
        instance = make_instance(seeded(seed), max_experts=6)
        for method in ("on-demand", "presched", "dp"):
            result = solve(instance, method=method)
            assert result.plan is not None and result.makespan_ns is not None
            # The model copies as early as it may, so rules that hold back are hinted with their own times.
            model = build_cp_sat_model(instance, horizon_ns=result.makespan_ns)
            model.add_hint(result.plan)
            solver = cp_model.CpSolver()
            solver.parameters.num_workers = 1
            solver.parameters.fix_variables_to_their_hinted_value = True
            assert solver.solve(model.model) == cp_model.OPTIMAL, (seed, method)
            assert solver.objective_value == result.makespan_ns


def test_without_time_the_incumbent_stays() -> None:
    stopped = 0
    for seed in range(80):
        instance = make_instance(seeded(seed), max_layers=5, max_experts=7)
        start = solve(instance, method=LeadDp(polish=Polish.NONE))
        result = solve(instance, method=WEAK, limits=Limits(deterministic_time=1e-6))
        assert result.makespan_ns is not None and start.makespan_ns is not None
        assert result.makespan_ns <= start.makespan_ns
        stopped += result.status is Status.FEASIBLE
    assert stopped > 0


def test_a_weak_start_is_improved() -> None:
    improved = 0
    for seed in range(150):
        result = solve(make_instance(seeded(seed), max_experts=6), method=WEAK)
        assert result.makespan_ns is not None and result.statistics.start_makespan_ns is not None
        improved += result.makespan_ns < result.statistics.start_makespan_ns
    assert improved > 0


def test_hints_are_used_or_refused_by_name() -> None:
    instance = make_instance(seeded(11), max_layers=3, max_experts=4)
    good = solve(instance, method="on-demand").plan
    for method in ("dp", "cp-sat"):
        assert solve(instance, method=method).statistics.hint is HintUse.ABSENT
        assert solve(instance, method=method, hint=good).statistics.hint is HintUse.USED
        assert solve(instance, method=method, hint=Plan(layers=())).statistics.hint is HintUse.INFEASIBLE
    assert solve(instance, method="presched", hint=good).statistics.hint is HintUse.IGNORED


def test_symmetry_cuts_lose_nothing_and_the_solver_proves_alone() -> None:
    for seed in range(25):
        instance = make_instance(
            seeded(seed), max_layers=3, max_experts=4, max_missing=5, predictions=seed % 2 == 1
        )
        best = prove_optimum(instance).makespan_ns
        for symmetry in (True, False):
            for known_bound in (True, False):
                method = replace(WEAK, symmetry=symmetry, known_bound=known_bound)
                result = solve(instance, method=method)
                assert (result.makespan_ns, result.status) == (best, Status.OPTIMAL), seed
                if not known_bound:
                    assert result.statistics.proved_bound_ns == best


def test_experts_alike_on_the_device_alone_keep_their_freedom() -> None:
    """Two residents, equal on the device: only the light one belongs on the host."""
    instance = Instance(
        name="residents",
        costs=CostModel(
            expert_bytes=(1,),
            link=Link(bytes_per_s=10**9),
            gpu=(LinearTime(fixed_ns=100),),
            cpu=(LinearTime(fixed_ns=0, per_token_ns=60),),
            dense=(LinearTime(fixed_ns=0),),
        ),
        demand=Demand(counts=np.array([[1, 5]]), batch_tokens=5),
        residents=((0, 1),),
        slots=0,
        lookahead=0,
    )
    model = build_cp_sat_model(instance, horizon_ns=200)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    assert solver.solve(model.model) == cp_model.OPTIMAL
    assert solver.objective_value == 100
    assert model.read_plan(solver).layers[0].cpu == (0,)
