"""The rules of a plan that need no clock, one by one: a second opinion on the evaluator's refusals."""

from __future__ import annotations

from collections import Counter

from prescope.formulation import InfeasibleReason, Instance, Plan


def broken_rules(instance: Instance, plan: Plan) -> set[InfeasibleReason]:
    """Every static rule that a plan breaks; empty when only time can refuse it."""
    broken: set[InfeasibleReason] = set()
    layers, experts = instance.demand.counts.shape
    if len(plan.layers) != layers:
        broken.add(InfeasibleReason.LAYER_COUNT)
    copied = Counter((copy.layer, copy.expert) for copy in plan.transfers)
    if any(times > 1 for times in copied.values()):
        broken.add(InfeasibleReason.TRANSFERRED_TWICE)
    for copy in plan.transfers:
        if copy.layer >= layers:
            broken.add(InfeasibleReason.UNKNOWN_LAYER)
            continue
        if copy.expert >= experts:
            broken.add(InfeasibleReason.UNKNOWN_EXPERT)
        if copy.expert in instance.residents[copy.layer]:
            broken.add(InfeasibleReason.RESIDENT_TRANSFERRED)
        if copy.gate is not None and copy.gate < copy.layer - instance.lookahead and copy.layer >= 0:
            # A gate before the first layer is the start of the batch, which a long lookahead allows.
            if not (copy.gate == -1 and copy.layer < instance.lookahead):
                broken.add(InfeasibleReason.TRANSFER_TOO_EARLY)
        if (copy.slot or 0) >= instance.slots:
            broken.add(InfeasibleReason.SLOT_OVERFLOW)
    for layer, placed in enumerate(plan.layers[:layers]):
        times = Counter(placed.gpu) + Counter(placed.cpu)
        needed = {expert for expert in range(experts) if instance.demand.counts[layer, expert]}
        if any(expert >= experts for expert in times):
            broken.add(InfeasibleReason.UNKNOWN_EXPERT)
        if any(count > 1 for count in times.values()):
            broken.add(InfeasibleReason.COMPUTED_TWICE)
        if any(expert < experts and expert not in needed for expert in times):
            broken.add(InfeasibleReason.NOT_ACTIVATED)
        if needed - set(times) or (placed.cpu and not instance.host_computes):
            broken.add(InfeasibleReason.MISSING_DEVICE)
        if any((layer, e) not in copied and e not in instance.residents[layer] for e in placed.gpu):
            broken.add(InfeasibleReason.MISSING_TRANSFER)
    return broken
