"""The exact evaluator and an independent event simulation agree on every plan: times, slots and refusals."""

import pytest
from event_simulation import DeadlockError, Simulated, simulate
from hypothesis import given, settings
from plan_rules import broken_rules
from tiny_instances import (
    instances_with_any_plans,
    instances_with_plans,
    make_instance,
    make_plan,
    seeded,
    spoil,
)

from prescope.formulation import (
    InfeasiblePlanError,
    InfeasibleReason,
    Instance,
    Plan,
    Schedule,
    evaluate,
    makespan_ns,
)


def rows(schedule: Schedule):
    return [
        (task.kind.value, task.lane.value, task.layer, task.expert, task.slot, task.start_ns, task.end_ns)
        for task in schedule.tasks
    ]


def assert_agree(instance: Instance, plan: Plan) -> str:
    """Compare the two on one plan; return what became of it."""
    broken = broken_rules(instance, plan)
    if broken:
        for judge in (evaluate, makespan_ns):
            with pytest.raises(InfeasiblePlanError) as refused:
                judge(instance, plan)
            assert refused.value.reason in broken
        return refused.value.reason
    try:
        expected: Simulated = simulate(instance, plan)
    except DeadlockError as deadlock:
        for judge in (evaluate, makespan_ns):
            with pytest.raises(InfeasiblePlanError) as refused:
                judge(instance, plan)
            assert refused.value.reason is deadlock.reason
            assert f"transfer {deadlock.copy} (" in str(refused.value)
            assert f"layer {deadlock.layer} " in str(refused.value)
        return f"deadlock: {deadlock.reason}"
    schedule = evaluate(instance, plan)
    assert sorted(map(repr, rows(schedule))) == sorted(map(repr, expected.tasks))
    assert list(schedule.layer_end_ns) == expected.layer_end_ns
    assert schedule.makespan_ns == expected.makespan_ns == makespan_ns(instance, plan)
    return "feasible"


@given(instances_with_plans())
@settings(max_examples=400)
def test_same_schedule_or_same_deadlock(case):
    assert_agree(*case)


@given(instances_with_any_plans())
@settings(max_examples=400)
def test_same_refusal_of_any_plan(case):
    assert_agree(*case)


def test_agreement_covers_every_outcome():
    """On seeded plans each outcome occurs often enough to mean something."""
    seen: dict[str, int] = {}
    for seed in range(3000):
        pick = seeded(seed)
        instance = make_instance(pick, predictions=seed % 3 == 0)
        plan = make_plan(pick, instance)
        if seed % 2:
            plan = spoil(pick, instance, plan)
        outcome = assert_agree(instance, plan)
        seen[outcome] = seen.get(outcome, 0) + 1
    assert seen["feasible"] >= 1000
    for reason in InfeasibleReason:
        if reason is InfeasibleReason.TRANSFER_AFTER_USE:
            assert seen[f"deadlock: {reason}"] >= 20
        else:
            assert seen[reason] >= 5, seen
    assert seen[f"deadlock: {InfeasibleReason.SLOT_OVERFLOW}"] >= 20
