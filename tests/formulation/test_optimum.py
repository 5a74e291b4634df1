"""Brute force over the evaluator finds exactly the optimum that an unrestricted CP-SAT model proves."""

from functools import cache
from itertools import islice

import pytest
from brute_force import all_plans, canonical_plans, minimum
from cp_sat_judge import NotProvedError, prove_optimum
from tiny_instances import make_instance, seeded

from prescope.formulation import Instance, makespan_ns

INSTANCES, CHUNK, MOST_PLANS = 120, 30, 2000


def missing(instance: Instance) -> int:
    """Activated experts that are not resident."""
    active = [set(row.nonzero()[0].tolist()) for row in instance.demand.counts]
    return sum(len(row - set(pinned)) for row, pinned in zip(active, instance.residents, strict=True))


@cache
def busy_instances() -> tuple[Instance, ...]:
    """Instances with something to decide: several layers, three to five experts to copy or not.

    In every third of them the host predicts beside its experts.
    """
    found: list[Instance] = []
    for seed in range(2000):
        instance = make_instance(seeded(seed), max_missing=5, predictions=seed % 3 == 0)
        if instance.layers > 1 and instance.slots and missing(instance) >= 3:
            if len(list(islice(canonical_plans(instance), MOST_PLANS + 1))) <= MOST_PLANS:
                found.append(instance)
        if len(found) == INSTANCES:
            break
    return tuple(found)


@pytest.mark.parametrize("first", range(0, INSTANCES, CHUNK))
def test_brute_force_equals_the_proven_optimum(first):
    chosen = busy_instances()[first : first + CHUNK]
    assert len(chosen) == CHUNK
    for instance in chosen:
        proof = prove_optimum(instance)
        best_ns, _ = minimum(instance)
        assert best_ns == proof.makespan_ns, instance
        assert makespan_ns(instance, proof.plan) == proof.makespan_ns, instance


def test_brute_force_equals_the_proven_optimum_on_degenerate_instances():
    """No filter: empty layers, no slots, everything resident."""
    for seed in range(100):
        instance = make_instance(seeded(seed), max_experts=3, max_missing=3)
        assert minimum(instance)[0] == prove_optimum(instance).makespan_ns, instance


def test_named_slots_late_gates_and_unused_copies_never_help():
    compared = 0
    for seed in range(200):
        instance = make_instance(seeded(seed), max_layers=3, max_experts=2, max_missing=2)
        unpinned = instance.layers * instance.experts - sum(map(len, instance.residents))
        if instance.slots <= 3 and 2 <= unpinned <= 3 and instance.demand.counts.any():
            assert minimum(instance, all_plans(instance))[0] == minimum(instance)[0], instance
            compared += 1
    assert compared >= 20


def test_without_a_proof_the_judge_says_so():
    with pytest.raises(NotProvedError, match="expected a proof within 0.0"):
        prove_optimum(busy_instances()[0], deterministic_limit=0.0)
