"""What the link's lead over the coming layers is worth, as a gate asks it.

The same numbers as `prescope.solver.lead_dp` with one grid point per expert, no caps and a lookahead over all
layers, in half of the time: nothing is allocated, and choices that a bound excludes are passed over.
"""

from __future__ import annotations

import numba
import numpy as np

from prescope.formulation.demand import FloatArray, IntArray

# Bounds are compared with so much room that rounding excludes no choice.
_ROOM_NS = 1.0


@numba.njit(cache=True, error_model="numpy")
def _choose(
    table: IntArray,
    last: IntArray,
    tail: IntArray,
    most: int,
    dense: int,
    copy: int,
    copy_next: int,
    slots: int,
    following: FloatArray,
    first_lead: int,
    likely: int,
    totals: FloatArray,
) -> tuple[int, int]:
    """Write the least total at each lead from ``first_lead`` on, a copy apart; only one where it is negative.

    Returns the number of copies at the last of them and the lead it leaves. ``likely`` is looked at first; -1
    looks in order, so that of equal choices the least is found.
    """
    per_step, cap = 1.0 / copy_next, slots * copy_next
    least_next = following[slots]
    first_free = dense + (last[1] if most > 0 else 0)
    best = best_after = 0
    lead, least_lead = first_lead, max(first_lead, 0)
    first_late = least_lead // copy + 1
    for point in range(totals.shape[0]):
        waited = first_late * copy - lead
        if first_late <= most:
            waited -= tail[first_late - 1]
        best_total = np.inf
        for turn in range(-1, most + 1):
            copies = likely if turn < 0 else turn
            if copies < 0:
                continue
            end = table[copies]
            if end + least_next - _ROOM_NS >= best_total:
                continue
            late = copies * copy - lead
            if late > 0:
                if late + least_next - _ROOM_NS >= best_total:
                    break
                if copies > 0:
                    end = max(end, late + last[copies], waited + tail[copies])
            busy = first_free if copies > 0 else end
            # Slots that this layer leaves fill with the next layer's copies.
            space = min(copies, slots) * copy + max(slots - copies, 0) * copy_next
            stall = min(max(busy - space + least_lead, 0), end)
            after = min(end - stall - late, cap)
            place = after * per_step
            if place >= slots:
                total = end + least_next
            else:
                low = int(place) if place > 0.0 else 0
                total = end + following[low] + (following[low + 1] - following[low]) * (place - low)
            if total < best_total:
                best, best_total, best_after = copies, total, after
        totals[point] = best_total
        # The best choice of a lead is mostly good for the next one too: with it first, most others are
        # excluded by what they take at least.
        likely = best
        lead, least_lead, first_late = lead + copy, least_lead + copy, first_late + 1
    return best, best_after


@numba.njit(cache=True, error_model="numpy")
def fill_lead_values(
    tables_ns: IntArray,
    last_ns: IntArray,
    max_copies: IntArray,
    dense_ns: IntArray,
    copy_ns: IntArray,
    slots: int,
    value: FloatArray,
    tails_ns: IntArray,
) -> None:
    """Write the value of every layer at every lead.

    Parameters
    ----------
    tables_ns, last_ns, max_copies, dense_ns, copy_ns, slots
        As for `prescope.solver.lead_dp.lead_dp`, of ``W`` layers; at least one slot.
    value
        Receives what `lead_dp` returns, float64 ``[>= W + 1, >= slots + 1]``.
    tails_ns
        Receives the sums of ``last_ns`` up to each copy, int64 like it.
    """
    layers = dense_ns.shape[0]
    for point in range(slots + 1):
        value[layers, point] = 0.0
    for layer in range(layers - 1, -1, -1):
        copy = copy_ns[layer]
        copy_next = copy_ns[layer + 1] if layer + 1 < layers else copy
        last, tail = last_ns[layer], tails_ns[layer]
        tail[0] = 0
        for copies in range(1, max_copies[layer] + 1):
            tail[copies] = tail[copies - 1] + last[copies]
        _choose(
            tables_ns[layer],
            last,
            tail,
            max_copies[layer],
            dense_ns[layer],
            copy,
            copy_next,
            slots,
            value[layer + 1],
            0,
            0,
            value[layer, : slots + 1],
        )


@numba.njit(cache=True, error_model="numpy")
def follow_lead(
    tables_ns: IntArray,
    last_ns: IntArray,
    max_copies: IntArray,
    dense_ns: IntArray,
    copy_ns: IntArray,
    slots: int,
    value: FloatArray,
    tails_ns: IntArray,
    lead_ns: int,
    copies: IntArray,
) -> None:
    """Write how many copies each layer gets, as `prescope.solver.lead_dp.follow` says.

    Parameters
    ----------
    tables_ns, last_ns, max_copies, dense_ns, copy_ns, slots, value, tails_ns
        As filled by `fill_lead_values`.
    lead_ns
        Lead on entering the first layer, at most all slots; negative where the link is busy until then.
    copies
        Receives the numbers, int64 ``[>= W]``.
    """
    layers = dense_ns.shape[0]
    lead = lead_ns
    total = np.empty(1)
    for layer in range(layers):
        copy = copy_ns[layer]
        copy_next = copy_ns[layer + 1] if layer + 1 < layers else copy
        copies[layer], lead = _choose(
            tables_ns[layer],
            last_ns[layer],
            tails_ns[layer],
            max_copies[layer],
            dense_ns[layer],
            copy,
            copy_next,
            slots,
            value[layer + 1],
            lead,
            -1,
            total,
        )
