"""Every method on tiny instances of every shape: feasible, never below the bound, honest about itself."""

from dataclasses import replace

import numpy as np
import pytest
from tiny_instances import make_instance, seeded

from prescope.formulation import (
    CostModel,
    Demand,
    Instance,
    LinearTime,
    Link,
    Schedule,
    TableTime,
    Tier,
    evaluate,
)
from prescope.instances import synthetic_instance
from prescope.solver import Status, UnsuitableInstanceError, lower_bound, methods, solve

RULES = (
    "on-demand",
    "cpu-only",
    "intra-layer",
    "presched",
    "fiddler",
    "freetoken",
    "klotski",
    "fate",
    "hybrimoe",
)
SEEDS = range(60)


def instance_of(counts, **changes) -> Instance:
    counts = np.array(counts)
    layers, experts = counts.shape
    fields = {
        "name": "made",
        "costs": CostModel(
            expert_bytes=(700,) * layers,
            link=Link(bytes_per_s=10**9),
            gpu=(LinearTime(fixed_ns=60, per_token_ns=5),),
            cpu=(LinearTime(fixed_ns=300, per_token_ns=80),),
            dense=(LinearTime(fixed_ns=400),),
        ),
        "demand": Demand(counts=counts, batch_tokens=int(counts.max(initial=0))),
        "residents": ((0,),) * layers,
        "slots": 2,
        "lookahead": layers,
    }
    return Instance(**(fields | changes))


ODD = {
    "no tokens at all": instance_of([[0, 0], [0, 0]]),
    "empty layer in the middle": instance_of([[1, 2], [0, 0], [2, 1]]),
    "one expert": instance_of([[3]], residents=((),)),
    "all resident": instance_of([[1, 2, 3]] * 2, residents=((0, 1, 2),) * 2),
    "no slots": instance_of([[1, 2, 3]] * 3, slots=0),
    "on-demand only": instance_of([[1, 2, 3]] * 3, lookahead=0),
    "one layer ahead": instance_of([[1, 2, 3]] * 4, lookahead=1),
    "link busy for long": instance_of([[1, 2, 3]] * 3, link_ready_ns=5000),
    "disk, more missing than slots": instance_of(
        [[1, 2, 3, 4, 5]] * 3, slots=2, tier=Tier.DISK, host_computes=False
    ),
    "disk, one slot, no lookahead": instance_of(
        [[1, 2, 3, 4]] * 2, slots=1, lookahead=0, tier=Tier.DISK, host_computes=False
    ),
    "free device": instance_of(
        [[1, 2, 3]] * 2,
        costs=CostModel(
            expert_bytes=(1, 900),
            link=Link(bytes_per_s=10**9),
            gpu=(LinearTime(fixed_ns=0),),
            cpu=(LinearTime(fixed_ns=500),),
            dense=(LinearTime(fixed_ns=0),),
        ),
    ),
    "falling host times": instance_of(
        [[1, 2, 3, 4]] * 3,
        costs=CostModel(
            expert_bytes=(700,) * 3,
            link=Link(bytes_per_s=10**9),
            gpu=(LinearTime(fixed_ns=60),),
            cpu=(TableTime(tokens=(1, 2, 3, 4), times_ns=(900, 500, 700, 300)),),
            dense=(LinearTime(fixed_ns=200),),
        ),
    ),
}


@pytest.mark.parametrize("method", methods())
def test_tiny_instances_get_feasible_plans_never_below_the_bound(method: str) -> None:
    for seed in SEEDS:
        instance = make_instance(seeded(seed))
        try:
            result = solve(instance, method=method)
        except UnsuitableInstanceError:
            assert method == "ktransformers" and not instance.host_computes
            continue
        assert result.plan is not None
        assert evaluate(instance, result.plan).makespan_ns == result.makespan_ns
        assert lower_bound(instance) <= result.lower_bound_ns <= result.makespan_ns, seed
        assert (result.status is Status.OPTIMAL) == (result.makespan_ns == result.lower_bound_ns)


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("method", methods())
def test_odd_shapes(method: str, name: str) -> None:
    instance = ODD[name]
    if method == "ktransformers" and not instance.host_computes:
        with pytest.raises(UnsuitableInstanceError, match="expected a host that computes for ktransformers"):
            solve(instance, method=method)
        return
    result = solve(instance, method=method)
    assert result.plan is not None and result.gap is not None and result.gap >= 0
    used = {(layer, expert) for layer, entry in enumerate(result.plan.layers) for expert in entry.gpu}
    # HybriMoE's rule may drop a prefetch that comes too late.
    if method != "hybrimoe":
        assert all((copy.layer, copy.expert) in used for copy in result.plan.transfers), "a wasted copy"
    if not instance.host_computes:
        assert not any(entry.cpu for entry in result.plan.layers)


def test_dp_is_never_behind_the_rules() -> None:
    for seed in SEEDS:
        instance = make_instance(seeded(seed), max_layers=5, max_experts=7)
        reached = solve(instance).makespan_ns
        assert reached is not None
        for rule in RULES:
            other = solve(instance, method=rule).makespan_ns
            assert other is not None and reached <= other, (seed, rule)


def copies_before_their_gate(schedule: Schedule) -> int:
    gates = {task.layer: task.end_ns for task in schedule.tasks if task.kind == "dense"}
    return sum(task.kind == "copy" and task.start_ns < gates[task.layer] for task in schedule.tasks)


@pytest.mark.parametrize("method", ["on-demand", "cpu-only", "intra-layer"])
def test_rules_without_prefetch_never_copy_before_the_gate(method: str) -> None:
    for seed in SEEDS:
        instance = make_instance(seeded(seed))
        result = solve(instance, method=method)
        assert result.plan is not None
        assert copies_before_their_gate(evaluate(instance, result.plan)) == 0


def test_on_demand_copies_everything_and_cpu_only_nothing() -> None:
    instance = instance_of([[1, 2, 3]] * 2)
    everything, nothing = solve(instance, method="on-demand").plan, solve(instance, method="cpu-only").plan
    assert everything is not None and nothing is not None
    assert len(everything.transfers) == 4 and not any(entry.cpu for entry in everything.layers)
    assert not nothing.transfers and [entry.cpu for entry in nothing.layers] == [(2, 1), (2, 1)]


def test_presched_prefetches_one_layer_ahead_and_no_further() -> None:
    prefetched = 0
    for seed in range(40):
        instance = replace(make_instance(seeded(seed), max_layers=5), lookahead=5)
        plan = solve(instance, method="presched").plan
        assert plan is not None
        for copy in plan.transfers:
            assert copy.gate == copy.layer - 1 or instance.layers < 2
        prefetched += copies_before_their_gate(evaluate(instance, plan))
    assert prefetched > 0


def test_presched_uses_its_lookahead() -> None:
    for seed in range(3):
        instance = synthetic_instance("olmoe-1b-7b", "lab", 32, seed)
        alone, pairs = solve(instance, method="intra-layer"), solve(instance, method="presched")
        assert alone.gap is not None and pairs.gap is not None
        assert pairs.gap < 0.003 < 0.01 < alone.gap


def test_intra_layer_is_the_best_split_of_a_single_layer() -> None:
    for seed in range(40):
        instance = replace(make_instance(seeded(seed), max_layers=1, max_experts=6, host=True), lookahead=0)
        split, best = solve(instance, method="intra-layer"), solve(instance, method="cp-sat")
        rules = [solve(instance, method=rule).makespan_ns for rule in ("on-demand", "cpu-only")]
        assert split.makespan_ns is not None and best.makespan_ns is not None
        assert best.makespan_ns <= split.makespan_ns <= min(rule for rule in rules if rule is not None)
