"""A lower bound on the makespan of every plan.

A forward dynamic programme over layers whose state is the link time of all copies so far. Each state keeps a
few labels ``(T, F)``: the layer starts no earlier than ``T``, and a link that has carried ``u`` of copies
has done so no earlier than ``F + u``. One layer with ``m`` copies gives

``T' = max(T + table(m), F + u' + tail(m))``,

with the relaxed table and tail of `prescope.formulation.relaxation`, and ``F`` rises

- to ``t - (u + slots * copy)``: when the layer starts at most ``slots`` copies beyond ``u`` have begun, and
  no slot is freed before ``t``, the gate plus the least device time (the layer's end if it copies nothing);
- to ``gate - (u' + what the next lookahead - 1 layers could copy)``: later layers' copies are not released
  before that gate.

Every plan without wasted copies has a label below it, whatever the order of its copies. (Wasted copies only
delay.) Labels beyond `_LABELS` are merged to their componentwise minimum, and copy times that differ between
layers are rounded down to a common unit: both keep the bound valid.
"""

from __future__ import annotations

import numba
import numpy as np

from prescope.formulation.demand import IntArray
from prescope.formulation.instance import Instance
from prescope.formulation.relaxation import fill_relaxed_table
from prescope.formulation.workload import Workload, workload
from prescope.solver.quick import quick_choice

_LABELS = 8
_FAR = 1 << 60


@numba.njit(cache=True)
def _insert(times: IntArray, frees: IntArray, counts: IntArray, state: int, time: int, free: int) -> None:
    """Add a label to a state's front, kept with increasing ``T`` and decreasing ``F``."""
    row_t, row_f = times[state], frees[state]
    count = counts[state]
    at = 0
    while at < count and row_t[at] <= time:
        if row_f[at] <= free:
            return
        at += 1
    end = at
    while end < count and row_f[end] >= free:
        end += 1
    if end > at:
        # Labels at..end-1 are dominated.
        row_t[at], row_f[at] = time, free
        for index in range(end, count):
            row_t[index - end + at + 1], row_f[index - end + at + 1] = row_t[index], row_f[index]
        counts[state] = count - (end - at) + 1
        return
    for index in range(count, at, -1):
        row_t[index], row_f[index] = row_t[index - 1], row_f[index - 1]
    row_t[at], row_f[at] = time, free
    counts[state] = count + 1
    if counts[state] < row_t.shape[0]:
        return
    # Full: merge the two neighbours that lose least.
    best, loss = 0, _FAR
    for index in range(counts[state] - 1):
        lost = min(row_t[index + 1] - row_t[index], row_f[index] - row_f[index + 1])
        if lost < loss:
            best, loss = index, lost
    row_f[best] = row_f[best + 1]
    for index in range(best + 1, counts[state] - 1):
        row_t[index], row_f[index] = row_t[index + 1], row_f[index + 1]
    counts[state] -= 1


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
        table = tables[layer]
        # More copies than the table's best only use the link.
        for copies in range((high - low if work.slots > 0 else 0) + 1):
            if table[copies] < table[most[layer]]:
                most[layer] = copies
        to_go[layer] = to_go[layer + 1] + table[most[layer]]
    states = 1
    for layer in range(layers):
        states += most[layer] * units[layer]
    times = np.zeros((states, _LABELS), dtype=np.int64)
    frees = np.zeros((states, _LABELS), dtype=np.int64)
    counts = np.zeros(states, dtype=np.int64)
    next_times = np.zeros((states, _LABELS), dtype=np.int64)
    next_frees = np.zeros((states, _LABELS), dtype=np.int64)
    next_counts = np.zeros(states, dtype=np.int64)
    counts[0] = 1
    frees[0, 0] = work.link_ready_ns
    reach = 0
    for layer in range(layers):
        dense, tail = work.dense_ns[layer], tails[layer]
        ahead = 0
        for later in range(layer + 1, min(layers, layer + work.lookahead)):
            ahead += (work.missing_offsets[later + 1] - work.missing_offsets[later]) * units[later]
        largest = units[layer]
        for later in range(layer + 1, min(layers, layer + 1 + work.lookahead)):
            largest = max(largest, units[later])
        room = work.slots * largest
        for state in range(states):
            next_counts[state] = 0
        next_reach = 0
        for state in range(reach + 1):
            for label in range(counts[state]):
                start, free = times[state, label], frees[state, label]
                gate = start + dense
                if work.lookahead == 0:
                    free = max(free, gate - state * unit_ns)
                for copies in range(most[layer] + 1):
                    after = state + copies * units[layer]
                    end = start + tables[layer, copies]
                    opened = gate + tail[1] if copies > 0 else end
                    if copies > 0:
                        end = max(end, free + after * unit_ns + tail[copies])
                        if copies > work.slots:
                            late = (copies - work.slots) * units[layer] * unit_ns
                            end = max(end, opened + late + tail[1])
                    if end + to_go[layer + 1] >= upper_ns:
                        if free + after * unit_ns + to_go[layer + 1] >= upper_ns:
                            break
                        continue
                    if copies == 0:
                        opened = end
                    later_free = max(free, opened - (state + room) * unit_ns)
                    if work.lookahead > 0:
                        later_free = max(later_free, gate - (after + ahead) * unit_ns)
                    _insert(next_times, next_frees, next_counts, after, end, later_free)
                    next_reach = max(next_reach, after)
        times, next_times = next_times, times
        frees, next_frees = next_frees, frees
        counts, next_counts = next_counts, counts
        reach = next_reach
    least = upper_ns
    for state in range(reach + 1):
        if counts[state] > 0:
            least = min(least, times[state, 0])
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
