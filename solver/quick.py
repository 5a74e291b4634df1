"""The lead DP's plan without local search: microseconds to a millisecond for a whole batch."""

from __future__ import annotations

import numba
import numpy as np

from prescope.formulation.demand import FloatArray, IntArray
from prescope.formulation.workload import LayerTables, Workload, layer_tables
from prescope.solver.lead_dp import follow, lead_dp
from prescope.solver.simulate import Choice, Track, choose_heaviest, new_track, simulate
from prescope.solver.value_function import ValueFunction

# How often caps and plan are made from each other when the lookahead is finite.
_ROUNDS = 5
_FIRST_WINDOW = 8


@numba.njit(cache=True)
def _lead_caps(work: Workload, copies: IntArray, track: Track, caps_ns: FloatArray) -> None:
    """Write the largest lead each layer can be entered with, if the batch runs about like ``track``."""
    layers = work.dense_ns.shape[0]
    for layer in range(layers):
        released = 0
        for ahead in range(layer, min(layers, layer + work.lookahead)):
            released += copies[ahead] * work.copy_ns[ahead]
        since = track.starts_ns[layer]
        if layer >= work.lookahead:
            since -= track.starts_ns[layer - work.lookahead] + work.dense_ns[layer - work.lookahead]
        caps_ns[layer] = min(released, since)


@numba.njit(cache=True)
def _plan(
    work: Workload, tables: LayerTables, q_grid: int
) -> tuple[Choice, int, FloatArray, FloatArray, int]:
    """Everything in one compiled call; returns choice, makespan, value, caps and window."""
    layers = work.dense_ns.shape[0]
    useful = 0
    caps_ns = np.empty(layers + 1)
    for layer in range(layers):
        useful += tables.useful[layer]
        caps_ns[layer] = np.inf
    caps_ns[layers] = np.inf
    # Small batches use few of their slots: the grid begins with as many as they plausibly need and grows
    # while the path comes near its end.
    window = min(work.slots, _FIRST_WINDOW + 4 * useful // layers)
    trial = Choice(
        np.zeros(work.missing.shape[0], dtype=np.bool_),
        np.zeros(work.resident.shape[0], dtype=np.bool_),
        np.arange(work.missing.shape[0]),
    )
    track = new_track(work)
    before = np.full(layers, -1)
    best_copies, best_ns, best_window = before, -1, 0
    best_value, best_caps = np.empty((0, 0)), caps_ns
    rounds = 0
    while True:
        value, _ = lead_dp(
            tables.table_ns,
            tables.last_ns,
            tables.useful,
            work.dense_ns,
            work.copy_ns,
            window,
            q_grid,
            work.lookahead,
            caps_ns,
            np.zeros(window * q_grid + 1),
        )
        copies, _, leads_ns = follow(
            tables.table_ns,
            tables.last_ns,
            tables.useful,
            work.dense_ns,
            work.copy_ns,
            window,
            q_grid,
            work.lookahead,
            caps_ns,
            value,
            -float(work.link_ready_ns),
        )
        full = False
        for layer in range(layers):
            full = full or leads_ns[layer] >= (window - 1) * work.copy_ns[layer]
        if full and window < work.slots:
            window = min(work.slots, 2 * window)
            continue
        same = True
        for layer in range(layers):
            same = same and copies[layer] == before[layer]
        if same:
            break
        choose_heaviest(work, copies, tables.demoted, trial)
        makespan_ns = simulate(work, trial, work.lookahead, track)
        if best_ns < 0 or makespan_ns < best_ns:
            best_copies, best_ns, best_value = copies, makespan_ns, value
            best_caps, best_window = caps_ns.copy(), window
        rounds += 1
        if rounds > _ROUNDS or not 1 < work.lookahead < layers:
            break
        before = copies
        _lead_caps(work, copies, track, caps_ns)
    choose_heaviest(work, best_copies, tables.demoted, trial)
    return trial, best_ns, best_value, best_caps, best_window


def quick_plan(work: Workload, tables: LayerTables, *, q_grid: int = 1) -> tuple[Choice, int, ValueFunction]:
    """Plan a batch by the lead DP.

    With a finite lookahead above 1 the lead is capped by what the plan itself releases in time; plan and
    caps are made from each other a few times and the best plan, by exact simulation, is kept.

    Parameters
    ----------
    work, tables
        The batch.
    q_grid
        Grid points per expert.

    Returns
    -------
    choice, makespan_ns, function
        The plan, its exact makespan and the value function that led to it.
    """
    choice, makespan_ns, value_ns, caps_ns, window = _plan(work, tables, q_grid)
    function = ValueFunction(
        value_ns=value_ns,
        dense_ns=work.dense_ns,
        copy_ns=work.copy_ns,
        caps_ns=caps_ns,
        slots=window,
        q_grid=q_grid,
        lookahead=work.lookahead,
    )
    return choice, makespan_ns, function


def quick_choice(work: Workload) -> tuple[Choice, int]:
    """A good plan and its exact makespan."""
    choice, makespan_ns, _ = quick_plan(work, layer_tables(work))
    return choice, makespan_ns
