"""The lead DP: how many experts each layer should copy, with the link allowed to run ahead.

State: the link's lead on entering a layer, in nanoseconds of link time already spent on copies for this
layer and later ones. The grid of layer ``l`` has ``slots * q_grid + 1`` points spaced
``copy_ns[l] / q_grid``, so point ``k * q_grid`` means ``k`` whole experts of that layer. Between points the
value is linear; below zero (the link still busy with older work) the first segment is continued.

A decision ``m`` gives, with the lead ``q`` that the layer's lookahead lets it use:

``end(m, q) = max(table[m], (m * copy - q) + last[m])``   (the second where copies are still under way)
``q' = min(slots, q + end - stall - m * copy)``

where ``stall`` is the time the link waits for a slot because none of this layer's is freed yet, the slots
that this layer leaves being filled with copies of the next.
The slope ``-V'(q)`` is the price of link time.
"""

from __future__ import annotations

import numba
import numpy as np

from prescope.formulation.demand import FloatArray, IntArray


@numba.njit(cache=True, error_model="numpy")
def value_at(value: FloatArray, lead_ns: float, step_ns: float) -> float:
    """A layer's value at a lead: linear between grid points, flat beyond the last, extended below zero.

    ``value`` is one row of `lead_dp`'s first result, ``step_ns`` its grid spacing ``copy_ns / q_grid``.
    """
    top = value.shape[0] - 1
    if top == 0:
        return float(value[0])
    place = lead_ns / step_ns
    if place >= top:
        return float(value[top])
    low = int(place) if place > 0.0 else 0
    return float(value[low] + (value[low + 1] - value[low]) * (place - low))


@numba.njit(cache=True, error_model="numpy")
def _choose(
    table_ns: IntArray,
    last_ns: IntArray,
    max_copies: int,
    dense_ns: int,
    copy_ns: int,
    copy_next_ns: int,
    lead_ns: float,
    held_ns: float,
    lookahead: int,
    slots: int,
    cap_next_ns: float,
    value_next: FloatArray,
    step_next_ns: float,
) -> tuple[int, float, float, float]:
    """Best number of copies, total value, the layer's duration and the next lead."""
    best_copies = 0
    best_total = np.inf
    best_end = 0.0
    best_next = 0.0
    top = value_next.shape[0] - 1
    least_next = value_next[top]
    per_step = 1.0 / step_next_ns
    on_demand = lookahead == 0
    base_lead = min(lead_ns, 0.0) - dense_ns if on_demand else lead_ns
    first_late = 1
    if base_lead > 0.0:
        first_late = int(base_lead / copy_ns) + 1
    first_free = float(dense_ns)
    if max_copies > 0:
        first_free += last_ns[1]
    tail = 0.0
    for copies in range(max_copies + 1):
        work = float(copies * copy_ns)
        late = work - base_lead
        end = float(table_ns[copies])
        if late > 0.0:
            if late + least_next >= best_total:
                break
            if copies >= first_late:
                tail += last_ns[copies]
            if copies > 0:
                end = max(end, late + last_ns[copies], first_late * copy_ns - base_lead + tail)
        after = 0.0
        if not on_demand:
            lead = min(base_lead, work) if lookahead == 1 else base_lead
            busy = first_free if copies > 0 else end
            # Slots that this layer leaves fill with the next layer's copies.
            space = min(copies, slots) * copy_ns + max(slots - copies, 0) * copy_next_ns - held_ns
            stall = min(max(busy - space + max(lead, 0.0), 0.0), end)
            after = min(held_ns + lead + end - stall - work, cap_next_ns)
            if lookahead == 1:
                after = min(after, end - dense_ns)
        elif copies == 0 and lead_ns < 0.0:
            after = min(lead_ns + end, 0.0)
        # As `value_at`, written out: this is the innermost loop.
        place = after * per_step
        if place >= top or top == 0:
            total = end + least_next
        else:
            low = int(place) if place > 0.0 else 0
            total = end + value_next[low] + (value_next[low + 1] - value_next[low]) * (place - low)
        if total < best_total:
            best_copies, best_total, best_end, best_next = copies, total, end, after
    return best_copies, best_total, best_end, best_next


@numba.njit(cache=True, error_model="numpy")
def lead_dp(
    tables_ns: IntArray,
    last_ns: IntArray,
    max_copies: IntArray,
    dense_ns: IntArray,
    copy_ns: IntArray,
    slots: int,
    q_grid: int,
    lookahead: int,
    caps_ns: FloatArray,
    terminal: FloatArray,
) -> tuple[FloatArray, IntArray]:
    """Value of every layer at every lead, backwards over ``W`` layers.

    Parameters
    ----------
    tables_ns, last_ns
        Rows of `prescope.formulation.reduction.layer_table`, int64 ``[W, >= max(max_copies) + 1]``.
        Expected values may be rounded to nanoseconds.
    max_copies
        Valid entries of each row less one, int64 ``[W]``; better the table's minimum, since more copies
        only use the link (`prescope.formulation.workload.LayerTables` has both).
    dense_ns, copy_ns
        Per layer, int64 ``[W]``; ``copy_ns >= 1``.
    slots, q_grid
        Number of slots ``B`` and grid points per expert ``Q``; the grid has ``S = B * Q + 1`` points.
    lookahead
        0: a layer's copies start at its own gate. 1: the lead may only be for the next layer. More:
        limited by ``caps_ns`` alone.
    caps_ns
        Largest lead usable on entering each layer, float64 ``[W + 1]``; ``np.inf`` where only the slots
        limit.
    terminal
        Value after the last layer at each point of the last layer's grid, float64 ``[S]``; zeros for none.

    Returns
    -------
    value
        Nanoseconds still to go on entering each layer, float64 ``[W + 1, S]``; row ``W`` is ``terminal``.
    choice
        Number of copies, int64 ``[W, S]``.
    """
    layers = tables_ns.shape[0]
    points = slots * q_grid + 1
    value = np.empty((layers + 1, points), dtype=np.float64)
    choice = np.zeros((layers, points), dtype=np.int64)
    for point in range(points):
        value[layers, point] = terminal[point]
    for layer in range(layers - 1, -1, -1):
        step = copy_ns[layer] / q_grid
        copy_next = copy_ns[layer + 1] if layer + 1 < layers else copy_ns[layer]
        cap_next = min(caps_ns[layer + 1], float(slots * copy_next))
        limit = max_copies[layer] if slots > 0 else 0
        table, last, row, following = tables_ns[layer], last_ns[layer], value[layer], value[layer + 1]
        for point in range(points):
            copies, total, _, _ = _choose(
                table,
                last,
                limit,
                dense_ns[layer],
                copy_ns[layer],
                copy_next,
                min(point * step, caps_ns[layer]),
                0.0,
                lookahead,
                slots,
                cap_next,
                following,
                copy_next / q_grid,
            )
            row[point] = total
            choice[layer, point] = copies
    return value, choice


@numba.njit(cache=True, error_model="numpy")
def recourse(
    table_ns: IntArray,
    last_ns: IntArray,
    max_copies: int,
    dense_ns: int,
    copy_ns: int,
    copy_next_ns: int,
    lead_ns: float,
    held_ns: float,
    lookahead: int,
    slots: int,
    cap_next_ns: float,
    value_next: FloatArray,
    step_next_ns: float,
) -> tuple[int, float, float, float]:
    """How many experts to copy now, with this layer's true table and the saved value of the next.

    Two ways to call it:

    - at a layer's start, as the DP does: ``lead_ns`` counts all copies done for this layer and later,
      ``held_ns = 0``;
    - at a gate with real buffers: time starts at the gate (``dense_ns = 0``, table made with
      ``dense_ns = 0``), experts already landed for this layer are among the residents of the table,
      ``lead_ns = -(time until the link is free)`` and ``held_ns`` = link time of the copies landed or under
      way for LATER layers. With ``lookahead = 0`` nothing is carried to the next layer.

    Parameters
    ----------
    table_ns, last_ns, max_copies, dense_ns, copy_ns
        This layer, as for `lead_dp`. ``max_copies`` is cut to 0 when ``slots == 0``.
    copy_next_ns
        Copy time of the next layer.
    lead_ns, held_ns
        See above, in nanoseconds of link time.
    lookahead, slots
        As for `lead_dp`.
    cap_next_ns
        Largest lead usable on entering the next layer, at most ``slots * copy_ns[next]``.
    value_next, step_next_ns
        Row ``l + 1`` of `lead_dp`'s value and that layer's ``copy_ns / q_grid``.

    Returns
    -------
    copies
        The best number (of the heaviest missing experts).
    total_ns
        Duration of this layer plus the value of the next.
    end_ns
        Duration of this layer (from its start, or from the gate in the second way).
    lead_next_ns
        Lead on entering the next layer.
    """
    return _choose(
        table_ns,
        last_ns,
        max_copies if slots > 0 else 0,
        dense_ns,
        copy_ns,
        copy_next_ns,
        lead_ns,
        held_ns,
        lookahead,
        slots,
        cap_next_ns,
        value_next,
        step_next_ns,
    )


@numba.njit(cache=True, error_model="numpy")
def follow(
    tables_ns: IntArray,
    last_ns: IntArray,
    max_copies: IntArray,
    dense_ns: IntArray,
    copy_ns: IntArray,
    slots: int,
    q_grid: int,
    lookahead: int,
    caps_ns: FloatArray,
    value: FloatArray,
    lead_ns: float,
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Walk forward through a value function: copies, durations and entry leads of every layer.

    ``lead_ns`` is the lead on entering the first layer; negative where the link is busy until then. The
    other arguments are those of `lead_dp`, ``value`` its first result.

    Returns
    -------
    copies
        int64 ``[W]``.
    end_ns
        Duration of each layer in the fluid model, float64 ``[W]``.
    lead_ns
        Lead on entering each layer, float64 ``[W + 1]``.
    """
    layers = tables_ns.shape[0]
    copies = np.zeros(layers, dtype=np.int64)
    ends = np.zeros(layers, dtype=np.float64)
    leads = np.zeros(layers + 1, dtype=np.float64)
    leads[0] = lead_ns
    for layer in range(layers):
        copy_next = copy_ns[layer + 1] if layer + 1 < layers else copy_ns[layer]
        chosen, _, end, after = _choose(
            tables_ns[layer],
            last_ns[layer],
            max_copies[layer] if slots > 0 else 0,
            dense_ns[layer],
            copy_ns[layer],
            copy_next,
            min(leads[layer], caps_ns[layer]),
            0.0,
            lookahead,
            slots,
            min(caps_ns[layer + 1], float(slots * copy_next)),
            value[layer + 1],
            copy_next / q_grid,
        )
        copies[layer] = chosen
        ends[layer] = end
        leads[layer + 1] = after
    return copies, ends, leads
