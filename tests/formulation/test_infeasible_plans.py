"""Every way in which a plan is refused, by one minimal case each, with its exact words."""

import numpy as np
import pytest

from prescope.formulation import (
    CostModel,
    Demand,
    InfeasiblePlanError,
    InfeasibleReason,
    Instance,
    LayerPlan,
    LinearTime,
    Link,
    Plan,
    Tier,
    Transfer,
    evaluate,
    makespan_ns,
)

REASON = InfeasibleReason
NOTHING = LayerPlan()


def instance(counts, *, residents=None, slots=1, lookahead=1, host=True) -> Instance:
    """One nanosecond for everything."""
    one = (LinearTime(fixed_ns=1),)
    counts = np.array(counts)
    return Instance(
        name="minimal",
        costs=CostModel(
            expert_bytes=(1,) * len(counts), link=Link(bytes_per_s=10**9), gpu=one, cpu=one, dense=one
        ),
        demand=Demand(counts=counts, batch_tokens=1),
        residents=residents or ((),) * len(counts),
        slots=slots,
        lookahead=lookahead,
        tier=Tier.RAM if host else Tier.DISK,
        host_computes=host,
    )


def gpu(*experts) -> LayerPlan:
    return LayerPlan(gpu=experts)


def cpu(*experts) -> LayerPlan:
    return LayerPlan(cpu=experts)


def copy(layer, expert, **kwargs) -> Transfer:
    return Transfer(layer=layer, expert=expert, **kwargs)


CASES = {
    "too few layers": (
        instance([[1], [1]]),
        Plan(layers=(cpu(0),)),
        REASON.LAYER_COUNT,
        "layer count: expected 2 layers, got 1",
    ),
    "too many layers": (
        instance([[1]]),
        Plan(layers=(cpu(0), NOTHING)),
        REASON.LAYER_COUNT,
        "layer count: expected 1 layers, got 2",
    ),
    "copy of an unknown layer": (
        instance([[1]], lookahead=9),
        Plan(layers=(cpu(0),), transfers=(copy(1, 0),)),
        REASON.UNKNOWN_LAYER,
        "unknown layer: expected a layer in [0, 0], got transfer 0 (layer 1, expert 0)",
    ),
    "copy of an unknown expert": (
        instance([[1]]),
        Plan(layers=(cpu(0),), transfers=(copy(0, 1),)),
        REASON.UNKNOWN_EXPERT,
        "unknown expert: expected an expert in [0, 0], got transfer 0 (layer 0, expert 1)",
    ),
    "placed unknown expert": (
        instance([[1]]),
        Plan(layers=(cpu(0, 1),)),
        REASON.UNKNOWN_EXPERT,
        "unknown expert: expected an expert in [0, 0], got 1 in layer 0",
    ),
    "twice on the host": (
        instance([[1]]),
        Plan(layers=(cpu(0, 0),)),
        REASON.COMPUTED_TWICE,
        "expert computed twice: expected each expert once in layer 0, got [0] again",
    ),
    "on both sides": (
        instance([[0], [1]]),
        Plan(layers=(NOTHING, LayerPlan(gpu=(0,), cpu=(0,))), transfers=(copy(1, 0),)),
        REASON.COMPUTED_TWICE,
        "expert computed twice: expected each expert once in layer 1, got [0] again",
    ),
    "idle expert": (
        instance([[0, 1]]),
        Plan(layers=(cpu(0, 1),)),
        REASON.NOT_ACTIVATED,
        "expert without tokens: expected experts with tokens in layer 0, got [0]",
    ),
    "forgotten expert": (
        instance([[1, 1]]),
        Plan(layers=(cpu(1),)),
        REASON.MISSING_DEVICE,
        "missing device: expected every activated expert of layer 0 on a device, got none for [0]",
    ),
    "host that cannot compute": (
        instance([[1]], host=False),
        Plan(layers=(cpu(0),)),
        REASON.MISSING_DEVICE,
        "missing device: expected no expert on the host, which cannot compute, got [0] in layer 0",
    ),
    "no copy": (
        instance([[1]]),
        Plan(layers=(gpu(0),)),
        REASON.MISSING_TRANSFER,
        "missing transfer: expected a transfer of layer 0 expert 0, which runs on the device "
        "and is not resident, got none",
    ),
    "copy of the same expert of another layer": (
        instance([[1], [1]]),
        Plan(layers=(gpu(0), cpu(0)), transfers=(copy(1, 0),)),
        REASON.MISSING_TRANSFER,
        "missing transfer: expected a transfer of layer 0 expert 0, which runs on the device "
        "and is not resident, got none",
    ),
    "copied twice": (
        instance([[1]], slots=2),
        Plan(layers=(gpu(0),), transfers=(copy(0, 0), copy(0, 0))),
        REASON.TRANSFERRED_TWICE,
        "transferred twice: expected one transfer per expert, got transfer 1 (layer 0, expert 0) "
        "after transfer 0",
    ),
    "copy of a resident": (
        instance([[1]], residents=((0,),)),
        Plan(layers=(gpu(0),), transfers=(copy(0, 0),)),
        REASON.RESIDENT_TRANSFERRED,
        "resident transferred: expected a non-resident expert, got transfer 0 (layer 0, expert 0)",
    ),
    "gate before the lookahead": (
        instance([[0], [0], [1]], lookahead=1),
        Plan(layers=(NOTHING, NOTHING, gpu(0)), transfers=(copy(2, 0, gate=0),)),
        REASON.TRANSFER_TOO_EARLY,
        "transfer too early: expected a gate >= 1 with lookahead 1, "
        "got gate 0 for transfer 0 (layer 2, expert 0)",
    ),
    "start of the batch before the lookahead": (
        instance([[0], [1]], lookahead=1),
        Plan(layers=(NOTHING, gpu(0)), transfers=(copy(1, 0, gate=-1),)),
        REASON.TRANSFER_TOO_EARLY,
        "transfer too early: expected a gate >= 0 with lookahead 1, "
        "got gate -1 for transfer 0 (layer 1, expert 0)",
    ),
    "no slots at all": (
        instance([[1]], slots=0),
        Plan(layers=(gpu(0),), transfers=(copy(0, 0),)),
        REASON.SLOT_OVERFLOW,
        "slot overflow: expected one of 0 slots, got slot None for transfer 0 (layer 0, expert 0)",
    ),
    "unknown slot": (
        instance([[1]], slots=2),
        Plan(layers=(gpu(0),), transfers=(copy(0, 0, slot=2),)),
        REASON.SLOT_OVERFLOW,
        "slot overflow: expected one of 2 slots, got slot 2 for transfer 0 (layer 0, expert 0)",
    ),
    "slot held for a later layer": (
        instance([[1], [1]], slots=1, lookahead=2),
        Plan(layers=(gpu(0), gpu(0)), transfers=(copy(1, 0), copy(0, 0))),
        REASON.SLOT_OVERFLOW,
        "slot overflow: expected a free slot among 1 for transfer 1 (layer 0, expert 0) "
        "while layer 0 waits for it, got all of them held for later work",
    ),
    "slot held for a later computation of the layer": (
        instance([[1, 1]], slots=1),
        Plan(layers=(gpu(0, 1),), transfers=(copy(0, 1), copy(0, 0))),
        REASON.SLOT_OVERFLOW,
        "slot overflow: expected a free slot among 1 for transfer 1 (layer 0, expert 0) "
        "while layer 0 waits for it, got all of them held for later work",
    ),
    "slot held by a dropped copy of a later layer": (
        instance([[1], [0]], slots=1, lookahead=2),
        Plan(layers=(gpu(0), NOTHING), transfers=(copy(1, 0), copy(0, 0))),
        REASON.SLOT_OVERFLOW,
        "slot overflow: expected a free slot among 1 for transfer 1 (layer 0, expert 0) "
        "while layer 0 waits for it, got all of them held for later work",
    ),
    "named slot held while another is free": (
        instance([[1], [1]], slots=2, lookahead=2),
        Plan(layers=(gpu(0), gpu(0)), transfers=(copy(1, 0, slot=0), copy(0, 0, slot=0))),
        REASON.SLOT_OVERFLOW,
        "slot overflow: expected slot 0 of 2 to be free for transfer 1 (layer 0, expert 0) "
        "while layer 0 waits for it, got it held for later work",
    ),
    "behind a copy of a gate to come": (
        instance([[1], [1]], slots=2, lookahead=0),
        Plan(layers=(gpu(0), gpu(0)), transfers=(copy(1, 0), copy(0, 0))),
        REASON.TRANSFER_AFTER_USE,
        "transfer after use: expected the transfers that layer 0 needs ahead of transfer 0 "
        "(layer 1, expert 0), which may not start before the gate of layer 1, got them behind it",
    ),
    "behind a copy decided at a gate to come": (
        instance([[1], [0], [1]], slots=2, lookahead=2),
        Plan(layers=(gpu(0), NOTHING, gpu(0)), transfers=(copy(2, 0, gate=1), copy(0, 0))),
        REASON.TRANSFER_AFTER_USE,
        "transfer after use: expected the transfers that layer 0 needs ahead of transfer 0 "
        "(layer 2, expert 0), which may not start before the gate of layer 1, got them behind it",
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("judge", [evaluate, makespan_ns])
def test_refused_with_the_reason_and_the_place(name, judge):
    problem, plan, reason, message = CASES[name]
    with pytest.raises(InfeasiblePlanError) as refused:
        judge(problem, plan)
    assert refused.value.reason is reason
    assert str(refused.value) == message


def test_every_reason_has_a_case():
    assert {reason for _, _, reason, _ in CASES.values()} == set(InfeasibleReason)


def test_an_infeasible_plan_is_a_value_error():
    assert issubclass(InfeasiblePlanError, ValueError)


FEASIBLE = {
    "batch start within the lookahead": (
        instance([[1]], lookahead=1),
        Plan(layers=(gpu(0),), transfers=(copy(0, 0, gate=-1),)),
        2,  # the copy hides behind the dense work
    ),
    "on demand": (
        instance([[1]], lookahead=0),
        Plan(layers=(gpu(0),), transfers=(copy(0, 0),)),
        3,  # dense, copy, compute
    ),
    "dropped copy frees its only slot": (
        instance([[0], [1]], slots=1, lookahead=2),
        Plan(layers=(NOTHING, gpu(0)), transfers=(copy(0, 0), copy(1, 0))),
        3,  # the drop is landed and free at gate 0 = 1, the copy lands at 2 = gate 1
    ),
    "copy that nobody waits for, in a slot freed by the last work": (
        instance([[1, 0]], slots=1, lookahead=1),
        Plan(layers=(gpu(0),), transfers=(copy(0, 0), copy(0, 1))),
        2,
    ),
    "empty layers": (instance([[0], [0]]), Plan(layers=(NOTHING, NOTHING)), 2),
}


@pytest.mark.parametrize("name", FEASIBLE)
def test_accepted_next_to_the_refused(name):
    problem, plan, expected_ns = FEASIBLE[name]
    assert makespan_ns(problem, plan) == expected_ns
