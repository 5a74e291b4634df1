"""What copies were worth, on one step worked out by hand, and sums over steps."""

from dataclasses import replace

import numpy as np
import pytest

from prescope.formulation import (
    CostModel,
    Demand,
    Instance,
    LayerPlan,
    Link,
    Plan,
    PlanInfo,
    Transfer,
    evaluate,
)
from prescope.formulation.time_curves import LinearTime
from prescope.runtime.plugin.report import StepReport, total
from prescope.runtime.plugin.step_report import copy_worth

# Copies take 100 ns. Gates at 150 and 330: layer 0 is over 30 ns after its gate, then 150 ns of dense work.
STEP = Instance(
    name="by hand",
    costs=CostModel(
        expert_bytes=(100, 100),
        link=Link(bytes_per_s=10**9),
        gpu=(LinearTime(fixed_ns=10),),
        cpu=(LinearTime(fixed_ns=30),),
        dense=(LinearTime(fixed_ns=150),),
        source="a test",
    ),
    demand=Demand(counts=np.array([[1, 1, 0, 0, 0], [1, 1, 1, 0, 1]]), batch_tokens=1),
    residents=((0, 2), ()),
    slots=5,
    lookahead=2,
)
IN_TIME_AND_USED = Transfer(layer=1, expert=0, slot=0, gate=-1)
NOT_NEEDED = Transfer(layer=1, expert=3, slot=1, gate=-1)
IN_TIME_NOT_USED = Transfer(layer=1, expert=1, slot=2, gate=0)
UNDER_WAY_AT_THE_GATE = Transfer(layer=1, expert=2, slot=3, gate=0)
ON_DEMAND = Transfer(layer=1, expert=4, slot=4, gate=1)


def test_every_kind_of_copy_is_counted_as_what_it_is():
    plan = Plan(
        layers=(LayerPlan(gpu=(0,), cpu=(1,)), LayerPlan(gpu=(0, 2, 4), cpu=(1,))),
        transfers=(IN_TIME_AND_USED, NOT_NEEDED, IN_TIME_NOT_USED, UNDER_WAY_AT_THE_GATE, ON_DEMAND),
        info=PlanInfo(method="by hand"),
    )
    schedule = evaluate(STEP, plan)
    gates = [task.end_ns for task in schedule.tasks if task.kind == "dense"]
    assert gates == [150, 330]
    worth = copy_worth(STEP, plan, schedule)
    assert worth.activated == 6
    # The resident that was needed, and two copies that were there at the gate.
    assert worth.hits == 3
    assert (worth.prefetch_useful, worth.prefetch_wasted, worth.prefetch_late) == (1, 2, 1)


def step(**changes):
    fields = {
        "step": 0,
        "phase": "decode",
        "tokens": 2,
        "planned_ns": 10,
        "simulated_ns": 11,
        "executed_ns": 12,
        "bytes_moved": 100,
        "activated": 8,
        "hits": 6,
        "prefetch_useful": 3,
        "prefetch_wasted": 2,
        "prefetch_late": 1,
        "gpu_experts": 5,
        "cpu_experts": 3,
        "gpu_tokens": 9,
        "cpu_tokens": 3,
        "plan_ns": 7,
        "violations": {"copy": 1},
        "timed_ops": 10,
    }
    return StepReport(**{**fields, **changes})


def test_totals_are_sums_and_shares_of_sums():
    both = total([step(), step(hits=2, gpu_tokens=3, violations={"copy": 1, "compute": 2})])
    assert (both.steps, both.tokens, both.planned_ns, both.bytes_moved) == (2, 4, 20, 200)
    assert (both.simulated_ns, both.executed_ns) == (22, 24)
    assert both.hit_rate == pytest.approx(8 / 16)
    assert both.gpu_share == pytest.approx(12 / 18)
    assert (both.prefetch_useful, both.prefetch_wasted, both.prefetch_late) == (6, 4, 2)
    assert both.violations == {"copy": 2, "compute": 2}
    assert both.violation_share == pytest.approx(4 / 20)
    assert both.plan_ns == 7


def test_a_time_that_one_step_lacks_is_not_summed_and_nothing_has_no_shares():
    assert total([step(), replace(step(), executed_ns=None)]).executed_ns is None
    empty = total([])
    assert (empty.hit_rate, empty.gpu_share, empty.executed_ns, empty.violation_share) == (
        None,
        None,
        None,
        0,
    )
