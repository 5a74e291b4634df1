"""The same plan with one expert elsewhere and everything else as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from prescope.formulation import (
    InfeasiblePlanError,
    Instance,
    LayerPlan,
    Plan,
    TaskKind,
    Transfer,
    evaluate,
    makespan_ns,
)

# Places in an order that are tried evenly spread, before all places around the best of them.
_SPREAD = 16

Edited = tuple[Plan, int]
"""A plan and its makespan by the exact evaluator."""


def on_host(instance: Instance, plan: Plan, layer: int, expert: int) -> Edited | None:
    """The plan with the expert on the host and no copy of it; ``None`` where the host cannot compute."""
    if not instance.host_computes:
        return None
    bare = without(plan, layer, expert)
    old = bare.layers[layer]
    return _judged(instance, _with_layer(bare, layer, LayerPlan(gpu=old.gpu, cpu=(*old.cpu, expert))))


def on_device(
    instance: Instance, plan: Plan, layer: int, expert: int, *, gate: int | None = None
) -> Edited | None:
    """The plan with the expert on the device, in the best places found of the link's and the device's order.

    Parameters
    ----------
    instance, plan, layer, expert
        The problem, its plan, and an expert with tokens.
    gate
        Its copy is decided at this layer's gate and cannot start before; ``None`` is as early as the
        lookahead allows.

    Returns
    -------
    Edited or None
        ``None`` where no such plan is feasible: no slot, or all of them held.
    """
    bare = without(plan, layer, expert)
    if expert in instance.residents[layer]:
        return _best_order(instance, bare, layer, expert)
    if instance.slots == 0:
        return None
    copy = Transfer(layer=layer, expert=expert, gate=gate)
    last, near = _link_places(instance, plan, bare, layer, on_demand=gate == layer)

    def placed(place: int) -> Edited | None:
        order = (*bare.transfers[:place], copy, *bare.transfers[place:])
        copied = replace(bare, transfers=order)
        # The device takes copies in link order: behind those that come before this one.
        before = {one.expert for one in order[:place] if one.layer == layer}
        gpu = bare.layers[layer].gpu
        at = max((index + 1 for index, one in enumerate(gpu) if one in before), default=0)
        return _best(_judged(instance, _insert(copied, layer, expert, spot)) for spot in {at, len(gpu)})

    found = _search(placed, last, near)
    if found is None:
        return None
    return _best((found, _best_order(instance, _taken_out(found[0], layer, expert), layer, expert)))


def _link_places(
    instance: Instance, plan: Plan, bare: Plan, layer: int, *, on_demand: bool
) -> tuple[int, int]:
    """The last place of the link's order that is worth a try, and one that is likely good.

    A copy made before the gate comes before those of later layers. One made at the gate comes behind all
    that the link does until then, whatever they are for, or the link would wait.
    """
    schedule = evaluate(instance, plan)
    gate_ns = next(
        task.end_ns for task in schedule.tasks if task.layer == layer and task.kind is TaskKind.DENSE
    )
    started_ns = {
        (task.layer, task.expert): task.start_ns for task in schedule.tasks if task.kind is TaskKind.COPY
    }
    by_gate = sum(started_ns[one.layer, one.expert] < gate_ns for one in bare.transfers)
    needed = max((place + 1 for place, one in enumerate(bare.transfers) if one.layer <= layer), default=0)
    return (max(needed, by_gate), by_gate) if on_demand else (needed, needed)


def without(plan: Plan, layer: int, expert: int) -> Plan:
    """The plan without an expert and without its copy; not a plan of the instance any more."""
    kept = tuple(one for one in plan.transfers if (one.layer, one.expert) != (layer, expert))
    return replace(_taken_out(plan, layer, expert), transfers=kept)


def _taken_out(plan: Plan, layer: int, expert: int) -> Plan:
    old = plan.layers[layer]
    gpu = tuple(one for one in old.gpu if one != expert)
    return _with_layer(plan, layer, LayerPlan(gpu=gpu, cpu=tuple(one for one in old.cpu if one != expert)))


def _best_order(instance: Instance, bare: Plan, layer: int, expert: int) -> Edited | None:
    last = len(bare.layers[layer].gpu)
    return _search(lambda spot: _judged(instance, _insert(bare, layer, expert, spot)), last)


def _insert(plan: Plan, layer: int, expert: int, spot: int) -> Plan:
    old = plan.layers[layer]
    return _with_layer(plan, layer, LayerPlan(gpu=(*old.gpu[:spot], expert, *old.gpu[spot:]), cpu=old.cpu))


def _with_layer(plan: Plan, layer: int, changed: LayerPlan) -> Plan:
    return replace(plan, layers=(*plan.layers[:layer], changed, *plan.layers[layer + 1 :]))


def _judged(instance: Instance, plan: Plan) -> Edited | None:
    try:
        return plan, makespan_ns(instance, plan)
    except InfeasiblePlanError:
        return None


def _best(found: Iterable[Edited | None]) -> Edited | None:
    return min((one for one in found if one is not None), key=lambda one: one[1], default=None)


def _search(placed: Callable[[int], Edited | None], last: int, near: int = 0) -> Edited | None:
    """The best of the places ``0..last``; of many a spread, ``near``, and those around the best of these."""
    spread: Sequence[int] = range(last + 1)
    if last > 2 * _SPREAD:
        spread = sorted({near, *(round(step * last / _SPREAD) for step in range(_SPREAD + 1))})
    tried = {place: placed(place) for place in spread}
    feasible = [place for place in spread if tried[place] is not None]
    if not feasible:
        return None
    if last > 2 * _SPREAD:
        middle = min(feasible, key=lambda place: tried[place][1])  # type: ignore[index]
        width = -(-last // _SPREAD)
        for place in range(max(0, middle - width + 1), min(last, middle + width - 1) + 1):
            if place not in tried:
                tried[place] = placed(place)
    return _best(tried.values())
