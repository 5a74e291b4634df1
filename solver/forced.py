"""Planning with one expert's place decided beforehand: what another choice would really cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prescope.formulation.demand import IntArray
from prescope.formulation.evaluator import makespan_ns
from prescope.formulation.instance import Instance
from prescope.formulation.plan import Plan
from prescope.formulation.workload import Workload, layer_tables, workload
from prescope.solver.build_plan import build_plan
from prescope.solver.descent import LEVELS, descend
from prescope.solver.hints import read_hint
from prescope.solver.kicks import kick_and_descend
from prescope.solver.quick import quick_plan
from prescope.solver.simulate import Choice, new_choice

# Far above any duration, far below overflow when a few are added.
_NEVER_NS = 1 << 58
_EFFORT = 400_000
"""Default effort: experts simulated, about 10 ns each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Force:
    """A decision taken beforehand.

    Parameters
    ----------
    layer, expert
        An activated expert.
    on_device
        Whether it runs on the device (resident or copied) or on the host.
    """

    layer: int
    expert: int
    on_device: bool


def replan(
    instance: Instance,
    force: Force | None = None,
    *,
    hint: Plan | None = None,
    effort: int = _EFFORT,
    seed: int = 0,
) -> tuple[Plan, int] | None:
    """The best plan found in which an expert runs where it is told to.

    Lead DP and local search on the exact simulation, as method ``dp`` does it, with the other place of the
    expert made endlessly dear. Nothing is proved; `prescope.solver.forced_bound` proves small instances.

    Parameters
    ----------
    instance
        The problem.
    force
        The decision; ``None`` plans freely.
    hint
        A plan to start from as well. The result is never longer than what the hint comes to once its expert
        is moved and its copies are put in layer order.
    effort
        Local search: experts simulated at most.
    seed
        Of the random kicks.

    Returns
    -------
    plan, makespan_ns
        By the exact evaluator; ``None`` where the decision cannot be carried out: no host computing, or no
        slot for a missing expert.

    Raises
    ------
    ValueError
        When the expert has no tokens.
    """
    work = workload(instance)
    if force is not None:
        if not _possible(instance, force):
            return None
        work = forced_workload(work, force)
    choice, _, _ = quick_plan(work, layer_tables(work))
    starts = [choice]
    if hint is not None:
        read = read_hint(instance, work, hint, choice).choice
        if read is not None:
            starts.append(read)
    if work.host_computes:
        everything = new_choice(work)
        everything.take[:] = work.slots > 0
        starts.append(everything)
    for start in starts:
        _obey(work, start, force)
    best, best_ns, spent = choice, _NEVER_NS, 0
    for index, start in enumerate(starts):
        reached_ns, used = descend(work, start, max(1, (effort - spent) // (len(starts) - index)), LEVELS)
        spent += used
        if reached_ns < best_ns:
            best, best_ns = start, reached_ns
    kick_and_descend(work, best, makespan_ns=best_ns, target_ns=0, seed=seed, budget=max(0, effort - spent))
    plan = build_plan(work, best)
    return plan, makespan_ns(instance, plan)


def forced_workload(work: Workload, force: Force) -> Workload:
    """The workload with an expert's other place endlessly dear, and the expert where planners expect it.

    A missing expert goes to the front of its layer to be copied and to the end to be left to the host; a
    resident the other way round.

    Raises
    ------
    ValueError
        When the expert has no tokens.
    """
    for kind in ("missing", "resident"):
        offsets, experts = getattr(work, f"{kind}_offsets"), getattr(work, kind)
        low, high = int(offsets[force.layer]), int(offsets[force.layer + 1])
        places = np.flatnonzero(experts[low:high] == force.expert)
        if len(places):
            first = force.on_device == (kind == "missing")
            order = _moved(len(experts), low, high, low + int(places[0]), first)
            arrays = {name: getattr(work, name)[order] for name in (kind, f"{kind}_cpu_ns", f"{kind}_gpu_ns")}
            dear = f"{kind}_cpu_ns" if force.on_device else f"{kind}_gpu_ns"
            arrays[dear][low if first else high - 1] = _NEVER_NS
            return work._replace(**arrays)
    raise ValueError(
        f"expected an expert of layer {force.layer} with tokens, got expert {force.expert}, which has none"
    )


def _moved(size: int, low: int, high: int, place: int, first: bool) -> IntArray:
    """All places, with one of them moved to the beginning or the end of its layer."""
    others = [rank for rank in range(low, high) if rank != place]
    layer = [place, *others] if first else [*others, place]
    return np.array([*range(low), *layer, *range(high, size)], dtype=np.int64)


def _possible(instance: Instance, force: Force) -> bool:
    if not force.on_device:
        return instance.host_computes
    return instance.slots > 0 or force.expert in instance.residents[force.layer]


def _obey(work: Workload, choice: Choice, force: Force | None) -> None:
    """Put the forced expert where it is to be; it is at an end of its layer."""
    if force is None:
        return
    for kind, on_device in (("missing", choice.take), ("resident", choice.keep)):
        offsets, experts = getattr(work, f"{kind}_offsets"), getattr(work, kind)
        low, high = int(offsets[force.layer]), int(offsets[force.layer + 1])
        on_device[low:high][experts[low:high] == force.expert] = force.on_device
