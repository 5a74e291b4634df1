"""The lead DP's plan without local search: microseconds to a millisecond for a whole batch."""

from __future__ import annotations

import numba
import numpy as np

from prescope.formulation.demand import FloatArray, IntArray
from prescope.formulation.workload import LayerTables, Workload, layer_tables
from prescope.solver.simulate import Choice, Track, choose_heaviest, new_choice, new_track, simulate
from prescope.solver.value_function import ValueFunction, follow_value, make_value_function

# How often caps and plan are made from each other when the lookahead is finite.
_ROUNDS = 5


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _lead_caps(work: Workload, copies: IntArray, track: Track) -> FloatArray:
    """Largest lead each layer can be entered with, if the batch runs about like ``track``."""
    layers = work.dense_ns.shape[0]
    caps = np.zeros(layers + 1)
    for layer in range(layers):
        released = 0
        for ahead in range(layer, min(layers, layer + work.lookahead)):
            released += copies[ahead] * work.copy_ns[ahead]
        since = track.starts_ns[layer]
        if layer >= work.lookahead:
            since -= track.starts_ns[layer - work.lookahead] + work.dense_ns[layer - work.lookahead]
        caps[layer] = min(released, since)
    return caps


def choose_copies(work: Workload, tables: LayerTables, copies: IntArray) -> tuple[Choice, Track, int]:
    """The choice with given numbers of copies, simulated: choice, its track and its makespan."""
    choice, track = new_choice(work), new_track(work)
    choose_heaviest(work, copies, tables.demoted, choice)
    return choice, track, int(simulate(work, choice, work.lookahead, track))


def quick_plan(
    work: Workload, tables: LayerTables, *, q_grid: int = 1
) -> tuple[Choice, int, ValueFunction]:
    """Plan a batch by the lead DP.

    With a finite lookahead above 1 the lead is capped by what the plan itself releases in time; plan and
    caps are made from each other a few times and the best plan, by exact simulation, is kept.

    Returns
    -------
    choice, makespan_ns, function
        The plan, its exact makespan and the value function that led to it.
    """
    function = make_value_function(work, tables, q_grid=q_grid)
    copies = follow_value(work, tables, function)
    choice, track, makespan_ns = choose_copies(work, tables, copies)
    if not 1 < work.lookahead < len(work.dense_ns):
        return choice, makespan_ns, function
    for _ in range(_ROUNDS):
        capped = make_value_function(
            work, tables, q_grid=q_grid, caps_ns=_lead_caps(work, copies, track)
        )
        before = copies
        copies = follow_value(work, tables, capped)
        if np.array_equal(copies, before):
            break
        other, track, other_ns = choose_copies(work, tables, copies)
        if other_ns < makespan_ns:
            choice, makespan_ns, function = other, other_ns, capped
    return choice, makespan_ns, function


def quick_choice(work: Workload) -> tuple[Choice, int]:
    """A good plan and its exact makespan."""
    choice, makespan_ns, _ = quick_plan(work, layer_tables(work))
    return choice, makespan_ns
