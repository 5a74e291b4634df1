"""A given plan as a starting point, adapted to the instance at hand."""

from __future__ import annotations

from dataclasses import dataclass

from prescope.formulation.instance import Instance
from prescope.formulation.plan import Plan
from prescope.formulation.workload import Workload
from prescope.solver.result import HintChanges, HintUse, RebuildReason
from prescope.solver.simulate import Choice, new_choice, new_track, simulate


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadHint:
    """What became of a hint.

    Parameters
    ----------
    use
        Whether and how it can be used.
    choice
        Who runs where, feasible for the instance; ``None`` where the hint is absent or refused.
    makespan_ns
        Of that choice.
    changes
        What adapting it changed.
    refused
        Why it could not be adapted.
    """

    use: HintUse
    choice: Choice | None = None
    makespan_ns: int | None = None
    changes: HintChanges | None = None
    refused: RebuildReason | None = None


def read_hint(instance: Instance, work: Workload, hint: Plan | None, placed: Choice) -> ReadHint:
    """Adapt a hinted plan, made for this instance or another.

    Experts stay on the side where the hint has them. Those without tokens are dropped, those it does not know
    go where ``placed`` has them, and whoever cannot stay (no slots, a host that does not compute) moves. The
    copies keep the hint's order inside each layer and take the canonical one otherwise, so slots and gates
    that the hint named no longer matter and the result is always feasible.

    Parameters
    ----------
    instance, work
        The problem.
    hint
        The plan.
    placed
        A plan of this instance for experts that the hint does not know: the DP's.
    """
    if hint is None:
        return ReadHint(use=HintUse.ABSENT)
    if len(hint.layers) != instance.layers:
        return ReadHint(use=HintUse.INFEASIBLE, refused=RebuildReason.LAYERS)
    named = [expert for entry in hint.layers for expert in (*entry.gpu, *entry.cpu)]
    named += [copy.expert for copy in hint.transfers]
    if max(named, default=0) >= instance.experts:
        return ReadHint(use=HintUse.INFEASIBLE, refused=RebuildReason.EXPERTS)
    choice = new_choice(work)
    copied = {(copy.layer, copy.expert): index for index, copy in enumerate(hint.transfers)}
    kept = dropped = new = moved = recopied = 0
    for layer, entry in enumerate(hint.layers):
        device, known = set(entry.gpu), {*entry.gpu, *entry.cpu}
        low, high = int(work.missing_offsets[layer]), int(work.missing_offsets[layer + 1])
        left, right = int(work.resident_offsets[layer]), int(work.resident_offsets[layer + 1])
        dropped += len(known)
        for rank in range(low, high):
            expert = int(work.missing[rank])
            if expert not in known:
                choice.take[rank] = placed.take[rank]
                new += 1
                continue
            dropped -= 1
            choice.take[rank] = (expert in device and work.slots > 0) or not work.host_computes
            if choice.take[rank] != (expert in device):
                moved += 1
            elif choice.take[rank] and (layer, expert) not in copied:
                recopied += 1
            else:
                kept += 1
        for rank in range(left, right):
            expert = int(work.resident[rank])
            if expert not in known:
                choice.keep[rank] = placed.keep[rank]
                new += 1
                continue
            dropped -= 1
            choice.keep[rank] = expert in device or not work.host_computes
            if choice.keep[rank] != (expert in device):
                moved += 1
            elif choice.keep[rank] and (layer, expert) in copied:
                recopied += 1
            else:
                kept += 1
        last = len(copied)
        places = [copied.get((layer, int(work.missing[rank])), last) for rank in range(low, high)]
        choice.sequence[low:high] = [rank for _, rank in sorted(zip(places, range(low, high), strict=True))]
    changes = HintChanges(kept=kept, dropped=dropped, placed=new, moved=moved, recopied=recopied)
    return ReadHint(
        use=HintUse.ADAPTED if changes.any else HintUse.USED,
        choice=choice,
        makespan_ns=int(simulate(work, choice, work.lookahead, new_track(work))),
        changes=changes,
    )
