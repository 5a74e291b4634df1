"""When, within a step, a copied expert may take the place of a resident."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prescope.formulation.demand import IntArray
from prescope.formulation.schedule import Lane, Schedule, TaskKind

FOR_EVER_NS = 2**62
"""Later than anything that happens."""

_NEVER = -1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SwapTimes:
    """What a step's schedule says about exchanging slots and places; all arrays are int64 ``[L, E]``.

    Parameters
    ----------
    taken_ns
        When the slot of a copied expert is taken by the next copy, `FOR_EVER_NS` if it is not; -1 for
        experts that were not copied completely before the step ended. Until then the slot must have become
        a place, or the weights are gone.
    leave_ns
        From when on an expert is no longer needed on the device in this step: the end of its work there, or
        the gate of its layer if it has none.
    """

    taken_ns: IntArray
    leave_ns: IntArray

    @property
    def landed(self) -> frozenset[tuple[int, int]]:
        """``(layer, expert)`` of the complete copies."""
        rows, experts = (self.taken_ns != _NEVER).nonzero()
        return frozenset(zip(rows.tolist(), experts.tolist(), strict=True))


def swap_times(schedule: Schedule, experts: int) -> SwapTimes:
    """Read both times from a schedule of ``experts`` experts per layer."""
    layers = len(schedule.layer_end_ns)
    taken_ns = np.full((layers, experts), _NEVER, dtype=np.int64)
    leave_ns = np.zeros((layers, experts), dtype=np.int64)
    last_of_slot: dict[int, tuple[int, int]] = {}
    # Tasks are sorted by their start: the next copy into a slot ends the time of the one before.
    for task in schedule.tasks:
        if task.kind is TaskKind.DENSE:
            leave_ns[task.layer] = np.maximum(leave_ns[task.layer], task.end_ns)
        elif task.kind is TaskKind.COPY and task.expert is not None and task.slot is not None:
            if task.slot in last_of_slot:
                taken_ns[last_of_slot.pop(task.slot)] = task.start_ns
            if task.end_ns <= schedule.makespan_ns:
                taken_ns[task.layer, task.expert] = FOR_EVER_NS
                last_of_slot[task.slot] = task.layer, task.expert
        elif task.kind is TaskKind.COMPUTE and task.lane is Lane.GPU and task.expert is not None:
            leave_ns[task.layer, task.expert] = max(leave_ns[task.layer, task.expert], task.end_ns)
    return SwapTimes(taken_ns=taken_ns, leave_ns=leave_ns)


def swaps_fit(taken_ns: list[int], leave_ns: list[int], free: int) -> bool:
    """Whether every comer finds a place before its slot is taken.

    Parameters
    ----------
    taken_ns
        One per comer.
    leave_ns
        One per resident that leaves.
    free
        Places that nobody had.
    """
    waiting = sorted(taken_ns)[free:]
    if len(waiting) > len(leave_ns):
        return False
    # Earliest with earliest: if any pairing fits, this one does.
    return all(leave <= taken for taken, leave in zip(waiting, sorted(leave_ns), strict=False))
