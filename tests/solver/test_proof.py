"""Proofs by CP-SAT alone."""

import pytest
from brute_force import minimum
from tiny_instances import make_instance, seeded

from prescope.formulation import InfeasiblePlanError, Plan
from prescope.instances import Bounds, InstanceFile, Provenance
from prescope.solver import lower_bound, solve
from prescope.solver.proof import prove
from prescope.solver.prove_bounds import BY_BOUND, prove_bounds


def test_proves_what_brute_force_finds_from_a_poor_plan() -> None:
    improved = 0
    for seed in range(40):
        instance = make_instance(seeded(seed), max_layers=3, max_experts=3, max_missing=4)
        start = solve(instance, method="on-demand")
        assert start.plan is not None
        proof = prove(instance, start.plan)
        assert proof.optimal and proof.makespan_ns == minimum(instance)[0], seed
        improved += proof.makespan_ns < (start.makespan_ns or 0)
    assert improved > 0


def test_without_time_the_plan_stays_and_the_bound_is_valid() -> None:
    for seed in range(40):
        instance = make_instance(seeded(seed), max_layers=5, max_experts=6)
        start = solve(instance, method="dp")
        assert start.plan is not None and start.makespan_ns is not None
        proof = prove(instance, start.plan, deterministic_time=0.0)
        assert proof.makespan_ns <= start.makespan_ns
        assert proof.lower_bound_ns <= prove(instance, start.plan).makespan_ns


def test_a_plan_for_another_instance_is_refused() -> None:
    with pytest.raises(InfeasiblePlanError):
        prove(make_instance(seeded(3)), Plan(layers=()))


def test_bounds_of_a_file_are_proved_again() -> None:
    for seed in range(30):
        instance = make_instance(seeded(seed), max_layers=4, max_experts=5)
        result = solve(instance, method="dp")
        assert result.plan is not None and result.makespan_ns is not None
        bound = lower_bound(instance, upper_ns=result.makespan_ns)
        met = bound == result.makespan_ns
        good = Bounds(
            optimum_ns=bound if met else None,
            optimum_by="dp" if met else None,
            lower_bound_ns=bound,
            lower_bound_by=BY_BOUND,
        )
        provenance = Provenance(source="test")
        file = InstanceFile(instance=instance, provenance=provenance, bounds=good)
        assert prove_bounds(file, result.plan) == BY_BOUND
        too_high = Bounds(lower_bound_ns=bound + 1, lower_bound_by=BY_BOUND)
        with pytest.raises(ValueError, match="expected to prove"):
            prove_bounds(InstanceFile(instance=instance, provenance=provenance, bounds=too_high), result.plan)
