"""The lower bound never exceeds an optimum proved by an independent model, and is often equal to it."""

from dataclasses import replace

import numpy as np
import pytest
from cp_sat_judge import prove_optimum
from tiny_instances import make_instance, seeded

from prescope.formulation import CostModel, Demand, Instance, LinearTime, Link
from prescope.solver import lower_bound


@pytest.mark.parametrize("block", range(6))
def test_never_above_the_proved_optimum(block: int) -> None:
    tight = 0
    for seed in range(50 * block, 50 * block + 50):
        instance = make_instance(seeded(seed), max_layers=4 + block % 2, max_experts=4 + block // 2)
        optimum = prove_optimum(instance).makespan_ns
        # A tight upper bound would hide a label above the optimum.
        bound = lower_bound(instance, upper_ns=3 * optimum + 50)
        assert bound <= optimum, seed
        tight += bound == optimum
    assert tight >= 40


@pytest.mark.parametrize("lookahead", [0, 1, 2, 3])
def test_valid_and_useful_with_every_lookahead_and_few_slots(lookahead: int) -> None:
    for seed in range(1000, 1030):
        instance = make_instance(seeded(seed), max_layers=5)
        instance = replace(instance, lookahead=lookahead, slots=min(max(instance.slots, 1), 2))
        optimum = prove_optimum(instance).makespan_ns
        assert lower_bound(instance, upper_ns=3 * optimum + 50) <= optimum, seed


def test_with_one_slot_copies_and_their_work_form_a_chain() -> None:
    tight = 0
    for seed in range(2000, 2080):
        instance = make_instance(seeded(seed), max_layers=5, max_experts=6, max_missing=8)
        instance = replace(instance, slots=1)
        optimum = prove_optimum(instance).makespan_ns
        bound = lower_bound(instance, upper_ns=3 * optimum + 50)
        assert bound <= optimum, seed
        tight += bound == optimum
    assert tight >= 70


def test_a_slot_may_hold_a_larger_copy_of_a_later_layer() -> None:
    instance = Instance(
        name="mixed",
        costs=CostModel(
            expert_bytes=(1, 50),
            link=Link(bytes_per_s=10**9),
            gpu=(LinearTime(fixed_ns=3),),
            cpu=(LinearTime(fixed_ns=1000),),
            dense=(LinearTime(fixed_ns=100), LinearTime(fixed_ns=0)),
        ),
        demand=Demand(counts=np.array([[0, 0], [1, 1]]), batch_tokens=1),
        residents=((), ()),
        slots=2,
        lookahead=2,
    )
    assert lower_bound(instance, upper_ns=1000) == prove_optimum(instance).makespan_ns == 106


def test_does_not_depend_on_the_known_makespan() -> None:
    for seed in range(60):
        instance = make_instance(seeded(seed))
        optimum = prove_optimum(instance).makespan_ns
        bound = lower_bound(instance)
        for upper in (optimum, optimum + 1, 3 * optimum + 50):
            again = lower_bound(instance, upper_ns=upper)
            assert again == bound or (again == upper == optimum), seed


def test_more_slots_or_lookahead_never_raise_it() -> None:
    for seed in range(60):
        instance = make_instance(seeded(seed))
        more = replace(instance, slots=instance.slots + 1, lookahead=instance.lookahead + 1)
        assert lower_bound(more) <= lower_bound(instance), seed
