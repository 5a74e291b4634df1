"""A lower bound on the makespan of every plan.

A forward dynamic programme over layers whose state is the link time of all copies so far. Each state keeps a
few labels ``(T, F, gates)``: the layer starts no earlier than ``T``; a link that has carried ``u`` of copies
has done so no earlier than ``F + u``; recent gates were no earlier than these. One layer with ``m`` copies
gives

``T' = max(T + table(m), F + u' + tail(m))``,

with the relaxed table and tail of `prescope.formulation.relaxation`, and ``F`` rises

- to ``t - (u + slots * copy)``: when the layer starts at most ``slots`` copies beyond ``u`` have begun, and
  no slot is freed before ``t``, the gate plus the least device time (plus the copy, if none may start before
  the gate; the layer's end if it copies nothing);
- to ``gate - v`` of the oldest gate kept, where ``v`` is the link time of all layers whose copies may start
  before that gate: known where the label reaches back ``lookahead - 1`` layers, otherwise bounded by what the
  layers not yet decided could copy at most;
- with one slot, by the device work of the layer's copies: the slot's next copy waits for each of them, so
  copies and their device work form one chain (and only the order of the layers is free of deadlock).

Every plan without wasted copies has a label below it, whatever the order of its copies. (Wasted copies only
delay.) Labels beyond `_LABELS` are merged to their componentwise minimum, which keeps the bound valid. Copy
times that differ between layers are rounded down to a common unit in the state only; what that takes off is
added to ``F``, so ``F + u`` is exact.
"""

from __future__ import annotations

import numba
import numpy as np

from prescope.formulation.demand import IntArray
from prescope.formulation.instance import Instance
from prescope.formulation.relaxation import cheapest_sums, fill_relaxed_table
from prescope.formulation.workload import Workload, workload
from prescope.solver.quick import quick_choice

_LABELS = 8
# Gates are kept for lookaheads up to this plus one; longer ones bind little and would cost most.
_GATES = 3
_FAR = 1 << 60


@numba.njit(cache=True)
def _insert(labels: IntArray, counts: IntArray, state: int, new: IntArray) -> None:
    """Add a label to a state's front of labels that do not dominate each other."""
    front = labels[state]
    size = new.shape[0]
    count = counts[state]
    kept = 0
    for index in range(count):
        below = above = True
        for field in range(size):
            below = below and front[index, field] <= new[field]
            above = above and front[index, field] >= new[field]
        if below:
            return
        if not above:
            if kept < index:
                for field in range(size):
                    front[kept, field] = front[index, field]
            kept += 1
    if kept < front.shape[0]:
        for field in range(size):
            front[kept, field] = new[field]
        counts[state] = kept + 1
        return
    # Full: the new label and the one it loses least with become their minimum.
    nearest, least = 0, _FAR
    for index in range(kept):
        lost = 0
        for field in range(size):
            lost += abs(front[index, field] - new[field])
        if lost < least:
            nearest, least = index, lost
    for field in range(size):
        front[nearest, field] = min(front[nearest, field], new[field])
    counts[state] = kept


@numba.njit(cache=True)
def _forward(work: Workload, units: IntArray, unit_ns: int, upper_ns: int) -> int:
    layers = work.dense_ns.shape[0]
    most = np.zeros(layers, dtype=np.int64)
    width = 1
    for layer in range(layers):
        width = max(width, work.missing_offsets[layer + 1] - work.missing_offsets[layer] + 1)
    tables = np.zeros((layers, width), dtype=np.int64)
    tails = np.zeros((layers, width), dtype=np.int64)
    to_go = np.zeros(layers + 1, dtype=np.int64)
    for layer in range(layers - 1, -1, -1):
        low, high = work.missing_offsets[layer], work.missing_offsets[layer + 1]
        left, right = work.resident_offsets[layer], work.resident_offsets[layer + 1]
        fill_relaxed_table(
            work.missing_cpu_ns[low:high],
            work.missing_gpu_ns[low:high],
            work.resident_cpu_ns[left:right],
            work.resident_gpu_ns[left:right],
            work.dense_ns[layer],
            work.copy_ns[layer],
            work.host_computes,
            tables[layer],
            tails[layer],
        )
        if work.slots == 1:
            chain = cheapest_sums(work.missing_gpu_ns[low:high])
            for copies in range(high - low + 1):
                tails[layer, copies] = chain[copies]
        table = tables[layer]
        # More copies than the table's best only use the link.
        for copies in range((high - low if work.slots > 0 else 0) + 1):
            if table[copies] < table[most[layer]]:
                most[layer] = copies
        to_go[layer] = to_go[layer + 1] + table[most[layer]]
    states = 1
    for layer in range(layers):
        states += most[layer] * units[layer]
    back = work.lookahead - 1 if 1 < work.lookahead < min(layers, _GATES + 2) else 0
    labels = np.zeros((states, _LABELS, 2 + back), dtype=np.int64)
    counts = np.zeros(states, dtype=np.int64)
    next_labels = np.zeros((states, _LABELS, 2 + back), dtype=np.int64)
    next_counts = np.zeros(states, dtype=np.int64)
    new = np.zeros(2 + back, dtype=np.int64)
    counts[0] = 1
    labels[0, 0, 1] = work.link_ready_ns
    reach = 0
    for layer in range(layers):
        dense, tail = work.dense_ns[layer], tails[layer]
        rounded_ns = work.copy_ns[layer] - units[layer] * unit_ns
        ahead_ns = 0
        for later in range(layer + 1, min(layers, layer - back + work.lookahead)):
            ahead_ns += most[later] * work.copy_ns[later]
        largest_ns = work.copy_ns[layer]
        for later in range(layer + 1, min(layers, layer + 1 + work.lookahead)):
            largest_ns = max(largest_ns, work.copy_ns[later])
        room_ns = work.slots * largest_ns
        for state in range(states):
            next_counts[state] = 0
        next_reach = 0
        for state in range(reach + 1):
            for label in range(counts[state]):
                start, carried = labels[state, label, 0], labels[state, label, 1]
                gate = start + dense
                if work.lookahead == 0:
                    carried = max(carried, gate - state * unit_ns)
                oldest = labels[state, label, 1 + back] if back > 0 else gate
                for copies in range(most[layer] + 1):
                    after = state + copies * units[layer]
                    free = carried + copies * rounded_ns
                    end = start + tables[layer, copies]
                    opened = end
                    if copies > 0:
                        opened = gate + tail[1] + (work.copy_ns[layer] if work.lookahead == 0 else 0)
                        end = max(end, free + after * unit_ns + tail[copies])
                        # Copies beyond the slots wait for them, and one slot serves at least so many more.
                        waiting = copies - work.slots
                        if waiting > 0:
                            more = (waiting + work.slots - 1) // work.slots
                            end = max(end, opened + waiting * work.copy_ns[layer] + tail[1])
                            end = max(end, opened + more * (work.copy_ns[layer] + tail[1]))
                    if end + to_go[layer + 1] >= upper_ns:
                        if free + after * unit_ns + to_go[layer + 1] >= upper_ns:
                            break
                        continue
                    later_free = max(free, opened + copies * rounded_ns - state * unit_ns - room_ns)
                    if work.slots == 1 and copies > 0:
                        chained = gate + tail[copies] + (copies - 1) * work.copy_ns[layer]
                        later_free = max(later_free, free + tail[copies], chained - after * unit_ns)
                    if work.lookahead > 0:
                        later_free = max(later_free, oldest - after * unit_ns - ahead_ns)
                    new[0], new[1] = end, later_free
                    # A gate that cannot raise F any more counts as just not raising it.
                    idle = later_free + after * unit_ns
                    for field in range(back - 1, 0, -1):
                        new[2 + field] = max(labels[state, label, 1 + field], idle)
                    if back > 0:
                        new[2] = max(gate, idle)
                    _insert(next_labels, next_counts, after, new)
                    next_reach = max(next_reach, after)
        labels, next_labels = next_labels, labels
        counts, next_counts = next_counts, counts
        reach = next_reach
    least = upper_ns
    for state in range(reach + 1):
        for label in range(counts[state]):
            least = min(least, labels[state, label, 0])
    return int(least)


def _unit_ns(copy_ns: IntArray) -> int:
    """The common unit of copy times that loses least to rounding down, not much below the shortest."""
    shortest, best, best_loss = int(copy_ns.min()), 1, None
    for parts in range(1, 17):
        unit = max(1, shortest // parts)
        loss = float((copy_ns % unit / copy_ns).mean())
        if best_loss is None or loss < best_loss - 1e-3:
            best, best_loss = unit, loss
    return best


def lower_bound(instance: Instance, *, upper_ns: int | None = None) -> int:
    """Nanoseconds that no plan for the instance can beat.

    Parameters
    ----------
    instance
        The problem.
    upper_ns
        Makespan of some feasible plan, if one is known; it only saves time. ``None`` makes a quick one.

    Returns
    -------
    int
        At most the optimal makespan. It equals ``upper_ns`` when that plan is proved optimal.
    """
    work = workload(instance)
    if upper_ns is None:
        upper_ns = quick_choice(work)[1]
    unit = _unit_ns(work.copy_ns)
    return int(_forward(work, work.copy_ns // unit, unit, upper_ns))
