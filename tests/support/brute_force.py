"""The cheapest plan of a tiny instance, by trying them all."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations, permutations, product

from prescope.formulation import InfeasiblePlanError, Instance, LayerPlan, Plan, Transfer, makespan_ns


def canonical_plans(instance: Instance) -> Iterator[Plan]:
    """Every placement, every device order of every layer and every order of the copies they need.

    Left out, each because the start of every task is a non-decreasing function of all the others when
    slots are taken first-free (docs/formulation.md), so that the plan without it is at least as good:
    named slots, gates later than the earliest, and copies that nobody uses. The order of the host's
    computations does not matter: only their sum does. `all_plans` leaves nothing of this out.
    """
    for layers in _placements(instance):
        needed = _needed(instance, layers)
        if needed and instance.slots == 0:
            continue
        for order in permutations(needed):
            yield Plan(layers=layers, transfers=tuple(Transfer(layer=layer, expert=e) for layer, e in order))


def all_plans(instance: Instance) -> Iterator[Plan]:
    """Every plan whatsoever, host orders excepted; only for the tiniest instances."""
    unpinned = [
        (layer, expert)
        for layer, row in enumerate(instance.residents)
        for expert in range(instance.experts)
        if expert not in row
    ]
    for layers in _placements(instance):
        needed = _needed(instance, layers)
        optional = [copy for copy in unpinned if copy not in needed]
        for dropped in _subsets(optional):
            for order in permutations((*needed, *dropped)):
                for transfers in product(*(_variants(instance, *copy) for copy in order)):
                    yield Plan(layers=layers, transfers=transfers)


def minimum(instance: Instance, plans: Iterator[Plan] | None = None) -> tuple[int, Plan]:
    """The least makespan of the plans that can be carried out, and the first plan that has it."""
    best: tuple[int, Plan] | None = None
    for plan in canonical_plans(instance) if plans is None else plans:
        try:
            time_ns = makespan_ns(instance, plan)
        except InfeasiblePlanError:
            continue
        if best is None or time_ns < best[0]:
            best = time_ns, plan
    if best is None:
        raise ValueError("expected at least one feasible plan, got none")
    return best


def _subsets(items):
    return chain.from_iterable(combinations(items, size) for size in range(len(items) + 1))


def _placements(instance: Instance) -> Iterator[tuple[LayerPlan, ...]]:
    return product(*(_layer_plans(instance, layer) for layer in range(instance.layers)))


def _layer_plans(instance: Instance, layer: int) -> list[LayerPlan]:
    active = [e for e in range(instance.experts) if instance.demand.counts[layer, e] > 0]
    found = []
    for on_gpu in _subsets(active):
        cpu = tuple(e for e in active if e not in on_gpu)
        if instance.host_computes or not cpu:
            found += [LayerPlan(gpu=order, cpu=cpu) for order in permutations(on_gpu)]
    return found


def _needed(instance: Instance, layers: tuple[LayerPlan, ...]) -> list[tuple[int, int]]:
    return [
        (layer, expert)
        for layer, placed in enumerate(layers)
        for expert in placed.gpu
        if expert not in instance.residents[layer]
    ]


def _variants(instance: Instance, layer: int, expert: int) -> list[Transfer]:
    gates = range(max(-1, layer - instance.lookahead), layer + 1)
    slots = (None, *range(instance.slots))
    return [Transfer(layer=layer, expert=expert, slot=slot, gate=gate) for slot in slots for gate in gates]
