"""A given plan as a starting point."""

from __future__ import annotations

from prescope.formulation.evaluator import makespan_ns
from prescope.formulation.infeasible import InfeasiblePlanError
from prescope.formulation.instance import Instance
from prescope.formulation.plan import Plan
from prescope.formulation.workload import Workload
from prescope.solver.result import HintUse
from prescope.solver.simulate import Choice, new_choice


def read_hint(instance: Instance, work: Workload, hint: Plan | None) -> tuple[Choice | None, HintUse]:
    """Who runs where in a hinted plan, if it is feasible for this instance."""
    if hint is None:
        return None, HintUse.ABSENT
    try:
        makespan_ns(instance, hint)
    except InfeasiblePlanError:
        return None, HintUse.INFEASIBLE
    choice = new_choice(work)
    place = {(copy.layer, copy.expert): index for index, copy in enumerate(hint.transfers)}
    for layer, entry in enumerate(hint.layers):
        device = set(entry.gpu)
        for rank in range(work.missing_offsets[layer], work.missing_offsets[layer + 1]):
            choice.take[rank] = int(work.missing[rank]) in device
        for rank in range(work.resident_offsets[layer], work.resident_offsets[layer + 1]):
            choice.keep[rank] = int(work.resident[rank]) in device
        low, high = int(work.missing_offsets[layer]), int(work.missing_offsets[layer + 1])
        ranks = range(low, high)
        last = len(place)
        choice.sequence[low:high] = sorted(
            ranks, key=lambda rank: place.get((layer, int(work.missing[rank])), last)
        )
    return choice, HintUse.USED
