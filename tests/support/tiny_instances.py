"""Tiny random instances and plans, feasible and not, from hypothesis or from a plain seed.

One generator serves both: it asks a `Picker` for integers. Times are a few nanoseconds, so that ties, where
evaluators differ, are common.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from hypothesis import strategies as st

from prescope.formulation import (
    CostModel,
    Demand,
    Instance,
    LayerPlan,
    LinearTime,
    Link,
    Plan,
    TableTime,
    Tier,
    TimeCurve,
    Transfer,
)

Item = TypeVar("Item")


class Picker:
    """Choices made by a function that returns an integer in [low, high], both included."""

    def __init__(self, integer: Callable[[int, int], int]) -> None:
        self.integer = integer

    def chance(self, percent: int) -> bool:
        """True in about `percent` of 100 cases; hypothesis shrinks it to False."""
        return self.integer(0, 99) >= 100 - percent

    def one(self, items: Sequence[Item]) -> Item:
        return items[self.integer(0, len(items) - 1)]

    def some(self, items: Sequence[Item], percent: int) -> list[Item]:
        return [item for item in items if self.chance(percent)]

    def shuffled(self, items: Sequence[Item]) -> list[Item]:
        left = list(items)
        return [left.pop(self.integer(0, len(left) - 1)) for _ in items]


def seeded(seed: int) -> Picker:
    """A picker driven by a seed."""
    return Picker(random.Random(seed).randint)


def make_instance(
    pick: Picker,
    *,
    max_layers: int = 4,
    max_experts: int = 5,
    max_missing: int | None = None,
    host: bool | None = None,
    predictions: bool = False,
) -> Instance:
    """A random instance; at most `max_missing` activated experts are not resident.

    With `predictions` the host spends time on predictions after some of the gates.
    """
    layers, experts = pick.integer(1, max_layers), pick.integer(1, max_experts)
    tokens = pick.integer(0, 6)
    counts = np.array([[_count(pick, tokens) for _ in range(experts)] for _ in range(layers)])
    residents = [_residents(pick, experts) for _ in range(layers)]
    if max_missing is not None:
        active = [
            (layer, expert) for layer in range(layers) for expert in range(experts) if counts[layer, expert]
        ]
        missing = [(layer, expert) for layer, expert in active if expert not in residents[layer]]
        for layer, expert in pick.shuffled(missing)[max_missing:]:
            counts[layer, expert] = 0
    host_computes = pick.chance(80) if host is None else host
    tier = Tier.RAM if host_computes else pick.one((Tier.RAM, Tier.DISK))
    return Instance(
        name="tiny",
        costs=_costs(pick, layers),
        demand=Demand(counts=counts, batch_tokens=tokens),
        residents=tuple(tuple(row) for row in residents),
        slots=pick.integer(0 if host_computes else 1, 5),
        lookahead=pick.integer(0, layers + 1),
        tier=tier,
        host_computes=host_computes,
        link_ready_ns=pick.integer(0, 12) if pick.chance(30) else 0,
        prediction_ns=tuple(pick.integer(0, 9) for _ in range(layers)) if predictions else (),
    )


def _count(pick: Picker, tokens: int) -> int:
    return 0 if pick.chance(25) else pick.integer(0, tokens)


def _residents(pick: Picker, experts: int) -> list[int]:
    kind = pick.integer(0, 5)
    if kind <= 1:
        return []
    return list(range(experts)) if kind == 5 else pick.some(range(experts), 40)


def _costs(pick: Picker, layers: int) -> CostModel:
    # Per-layer bytes; at the odd bandwidth a copy's time is not a whole number and must be rounded up.
    bandwidth = pick.one((10**9, 700_000_001))
    same = pick.chance(40)
    sizes = [pick.integer(1, 9) for _ in range(layers)]
    return CostModel(
        expert_bytes=tuple(sizes[:1] * layers if same else sizes),
        link=Link(bytes_per_s=bandwidth, latency_ns=pick.integer(0, 3)),
        gpu=_curves(pick, layers, 5),
        cpu=_curves(pick, layers, 20),
        dense=_curves(pick, layers, 8),
    )


def _curves(pick: Picker, layers: int, high_ns: int) -> tuple[TimeCurve, ...]:
    return tuple(_curve(pick, high_ns) for _ in range(pick.one((1, layers))))


def _curve(pick: Picker, high_ns: int) -> TimeCurve:
    if pick.chance(70):
        return LinearTime(fixed_ns=pick.integer(0, high_ns), per_token_ns=pick.one((0, 1, 2.5, 0.3)))
    points, tokens = pick.integer(1, 3), 0
    counts = []
    for _ in range(points):
        tokens += pick.integer(1, 3)
        counts.append(tokens)
    return TableTime(tokens=tuple(counts), times_ns=tuple(pick.integer(0, high_ns) for _ in range(points)))


def make_plan(
    pick: Picker, instance: Instance, *, slots: str | None = None, gates: bool = True, drops: bool = True
) -> Plan:
    """A plan that keeps every rule that needs no clock; it may still deadlock.

    `slots` is "free" (first free), "named" (all explicit) or "mixed"; drawn when None.
    """
    layer_plans, transfers = [], []
    for layer in range(instance.layers):
        gpu, cpu, copied = [], [], []
        for expert in range(instance.experts):
            resident = expert in instance.residents[layer]
            can_copy = not resident and instance.slots > 0
            active = instance.demand.counts[layer, expert] > 0
            on_gpu = active and (resident or can_copy) and (not instance.host_computes or pick.chance(65))
            if active:
                (gpu if on_gpu else cpu).append(expert)
            if can_copy and (on_gpu or (drops and pick.chance(15))):
                copied.append(expert)
        layer_plans.append(LayerPlan(gpu=tuple(pick.shuffled(gpu)), cpu=tuple(pick.shuffled(cpu))))
        # In the order of use, else most plans would deadlock inside a layer.
        rank = {expert: place for place, expert in enumerate(layer_plans[-1].gpu)}
        transfers += [(layer, expert) for expert in sorted(copied, key=lambda e: rank.get(e, -1))]
    _disorder(pick, transfers)
    kind = slots or pick.one(("free", "free", "named", "mixed"))
    with_gates = gates and pick.chance(30)
    return Plan(
        layers=tuple(layer_plans),
        transfers=tuple(_transfer(pick, instance, layer, e, kind, with_gates) for layer, e in transfers),
    )


def _disorder(pick: Picker, transfers: list[Any]) -> None:
    kind = pick.integer(0, 5)
    if kind == 5:
        transfers[:] = pick.shuffled(transfers)
    elif kind >= 3 and len(transfers) > 1:
        for _ in range(pick.integer(1, 2)):
            left = pick.integer(0, len(transfers) - 2)
            transfers[left], transfers[left + 1] = transfers[left + 1], transfers[left]


def _transfer(
    pick: Picker, instance: Instance, layer: int, expert: int, kind: str, with_gates: bool
) -> Transfer:
    named = kind == "named" or (kind == "mixed" and pick.chance(50))
    earliest = max(-1, layer - instance.lookahead)
    return Transfer(
        layer=layer,
        expert=expert,
        slot=pick.integer(0, instance.slots - 1) if named else None,
        gate=pick.integer(earliest, layer) if with_gates and pick.chance(50) else None,
    )


def spoil(pick: Picker, instance: Instance, plan: Plan) -> Plan:
    """Break some rule of a plan, or nothing when the drawn way does not apply to it."""
    return pick.one(_SPOILERS)(pick, instance, plan)


def _spoil_count(pick: Picker, instance: Instance, plan: Plan) -> Plan:
    return replace(plan, layers=plan.layers[:-1] if pick.chance(50) else (*plan.layers, LayerPlan()))


def _spoil_placement(pick: Picker, instance: Instance, plan: Plan) -> Plan:
    """Place any expert, known or not, once more."""
    layer = pick.integer(0, len(plan.layers) - 1) if plan.layers else None
    if layer is None:
        return plan
    expert = pick.integer(0, instance.experts)
    old = plan.layers[layer]
    new = replace(old, gpu=(*old.gpu, expert)) if pick.chance(50) else replace(old, cpu=(expert, *old.cpu))
    return replace(plan, layers=(*plan.layers[:layer], new, *plan.layers[layer + 1 :]))


def _spoil_omission(pick: Picker, instance: Instance, plan: Plan) -> Plan:
    layers = tuple(
        LayerPlan(gpu=tuple(pick.some(old.gpu, 70)), cpu=tuple(pick.some(old.cpu, 70))) for old in plan.layers
    )
    return replace(plan, layers=layers)


def _spoil_move(pick: Picker, instance: Instance, plan: Plan) -> Plan:
    """Swap device and host of every layer, wherever copies are and whoever can compute."""
    return replace(plan, layers=tuple(LayerPlan(gpu=old.cpu, cpu=old.gpu) for old in plan.layers))


def _spoil_no_copy(pick: Picker, instance: Instance, plan: Plan) -> Plan:
    return replace(plan, transfers=tuple(pick.some(plan.transfers, 70)))


def _spoil_copy(pick: Picker, instance: Instance, plan: Plan) -> Plan:
    """Add any copy: of an unknown layer or expert, of a resident, a second one, into no slot, too early."""
    layer = pick.integer(0, instance.layers)
    copy = Transfer(
        layer=layer,
        expert=pick.integer(0, instance.experts),
        slot=pick.integer(0, instance.slots) if pick.chance(50) else None,
        gate=pick.integer(-1, layer) if pick.chance(50) else None,
    )
    at = pick.integer(0, len(plan.transfers))
    return replace(plan, transfers=(*plan.transfers[:at], copy, *plan.transfers[at:]))


_SPOILERS: tuple[Callable[[Picker, Instance, Plan], Plan], ...] = (
    _spoil_count,
    _spoil_placement,
    _spoil_omission,
    _spoil_move,
    _spoil_no_copy,
    _spoil_copy,
)


def _picker(draw: st.DrawFn) -> Picker:
    return Picker(lambda low, high: draw(st.integers(low, high)))


@st.composite
def instances(draw: st.DrawFn, **limits: Any) -> Instance:
    """Tiny instances; `limits` as of `make_instance`."""
    return make_instance(_picker(draw), **limits)


@st.composite
def instances_with_plans(draw: st.DrawFn, **options: Any) -> tuple[Instance, Plan]:
    """An instance and a plan that keeps the static rules; `options` as of `make_plan`."""
    pick = _picker(draw)
    instance = make_instance(pick)
    return instance, make_plan(pick, instance, **options)


@st.composite
def instances_with_any_plans(draw: st.DrawFn) -> tuple[Instance, Plan]:
    """An instance and a plan that may break any rule."""
    pick = _picker(draw)
    instance = make_instance(pick)
    plan = make_plan(pick, instance)
    for _ in range(pick.integer(0, 2)):
        plan = spoil(pick, instance, plan)
    return instance, plan
