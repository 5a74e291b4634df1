"""Hints from other batches: adapted, counted, always feasible, refused by name where that is impossible."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_instances import instances, make_instance, make_plan, seeded

from prescope.formulation import Instance, LayerPlan, Plan, makespan_ns
from prescope.formulation.workload import layer_tables, workload
from prescope.solver import HintUse, RebuildReason, solve
from prescope.solver.build_plan import build_plan
from prescope.solver.exact.first_plan import Start
from prescope.solver.hints import read_hint
from prescope.solver.methods.cp_sat import CpSat
from prescope.solver.methods.dp import LeadDp, Polish
from prescope.solver.quick import quick_plan


def other_batch(instance: Instance, seed: int) -> Instance:
    """The same machine and model, other experts, residents and slots."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 2, instance.demand.counts.shape) * rng.integers(1, 4)
    demand = replace(instance.demand, counts=counts, batch_tokens=4)
    slots = int(rng.integers(1 if not instance.host_computes else 0, 4))
    residents = tuple(
        tuple(np.flatnonzero(rng.random(instance.experts) < 0.3).tolist()) for _ in instance.residents
    )
    return replace(instance, demand=demand, slots=slots, residents=residents, predicted=None)


def adapt(instance: Instance, hint: Plan | None):
    work = workload(instance)
    placed, _, _ = quick_plan(work, layer_tables(work))
    return work, read_hint(instance, work, hint, placed)


@settings(max_examples=150, deadline=None)
@given(instance=instances(), seed=st.integers(0, 10**6))
def test_any_plan_becomes_a_feasible_one_and_every_expert_is_accounted_for(instance, seed) -> None:
    old = other_batch(instance, seed)
    hint = make_plan(seeded(seed), old)
    work, read = adapt(instance, hint)
    assert read.choice is not None and read.changes is not None and read.refused is None
    plan = build_plan(work, read.choice)
    assert makespan_ns(instance, plan) == read.makespan_ns
    changes = read.changes
    active = int((instance.demand.counts > 0).sum())
    named = sum(len(entry.gpu) + len(entry.cpu) for entry in hint.layers)
    assert changes.kept + changes.moved + changes.recopied + changes.placed == active
    assert changes.kept + changes.moved + changes.recopied + changes.dropped == named
    assert (read.use is HintUse.ADAPTED) == changes.any
    if instance.host_computes and instance.slots > 0:
        for layer, entry in enumerate(plan.layers):
            known = {*hint.layers[layer].gpu, *hint.layers[layer].cpu}
            assert set(entry.gpu) & known <= set(hint.layers[layer].gpu)


def test_an_unchanged_batch_keeps_the_plan() -> None:
    for seed in range(40):
        instance = make_instance(seeded(seed), max_experts=6)
        result = solve(instance, method="dp")
        _, read = adapt(instance, result.plan)
        assert read.use is HintUse.USED and read.makespan_ns == result.makespan_ns
        again = solve(instance, method=LeadDp(polish=Polish.NONE), hint=result)
        assert again.makespan_ns is not None and result.makespan_ns is not None
        assert again.makespan_ns <= result.makespan_ns
        assert again.statistics.hint_makespan_ns == result.makespan_ns


def test_a_result_is_a_hint_and_changes_are_reported() -> None:
    first = make_instance(seeded(11), max_layers=3, max_experts=5, host=True)
    second = other_batch(first, 5)
    given = solve(first)
    for method in ("dp", "cp-sat", "milp"):
        statistics = solve(second, method=method, hint=given).statistics
        assert statistics.hint is HintUse.ADAPTED
        assert statistics.hint_changes is not None and statistics.hint_changes.any
        assert statistics.hint_makespan_ns is not None


def test_who_cannot_stay_is_told_as_moved() -> None:
    instance = replace(make_instance(seeded(3), host=True), slots=2)
    active = [row.nonzero()[0].tolist() for row in instance.demand.counts]
    hint = Plan(layers=tuple(LayerPlan(gpu=tuple(row)) for row in active))
    missing = sum(len(set(row) - set(held)) for row, held in zip(active, instance.residents, strict=True))
    assert missing
    _, read = adapt(replace(instance, slots=0), hint)
    assert read.changes is not None
    assert (read.use, read.changes.moved) == (HintUse.ADAPTED, missing)


def test_a_hint_alone_is_improved_upon_by_the_solver() -> None:
    used = 0
    for seed in range(30):
        instance = make_instance(seeded(seed), max_experts=6)
        hint = solve(instance, method="on-demand")
        result = solve(instance, method=CpSat(start=Start.HINT), hint=hint)
        assert result.statistics.hint is HintUse.USED
        assert result.statistics.start_makespan_ns == result.statistics.hint_makespan_ns
        # CP-SAT sees the hint as a solution of its own model.
        assert result.statistics.start_accepted in (None, True)
        used += result.statistics.start_accepted is True
    assert used > 5


@pytest.mark.parametrize("method", ["dp", "cp-sat", "milp", "cp-sat-table"])
def test_impossible_hints_are_refused_by_name(method: str) -> None:
    instance = make_instance(seeded(11), max_layers=3, max_experts=4)
    other = Plan(layers=(LayerPlan(),) * (instance.layers + 1))
    unknown = Plan(layers=(LayerPlan(cpu=(instance.experts,)),) * instance.layers)
    for hint, reason in ((other, RebuildReason.LAYERS), (unknown, RebuildReason.EXPERTS)):
        statistics = solve(instance, method=method, hint=hint).statistics
        assert statistics.hint is HintUse.INFEASIBLE
        assert statistics.hint_refused is reason
    assert solve(instance, method=method).statistics.hint is HintUse.ABSENT


def test_without_a_start_the_hint_is_left_out() -> None:
    instance = make_instance(seeded(11), max_layers=3, max_experts=4)
    hint = solve(instance)
    cold = solve(instance, method=CpSat(start=Start.NOTHING), hint=hint)
    assert cold.statistics.hint is HintUse.IGNORED
    assert cold.makespan_ns == hint.makespan_ns
