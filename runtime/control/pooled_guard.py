"""What reading ahead promised and what came of it, compiled; see `PooledStep` for the plain form."""

from __future__ import annotations

import numba

from prescope.formulation.demand import FloatArray, IntArray
from prescope.runtime.control.pooled_site import PoolState
from prescope.runtime.control.read_rules import FADE, SLACK
from prescope.runtime.control.step_state import LINK, NEVER

# Places in `RowPool.trust_ns`, and marks in `RowPool.pushed_out`.
PROMISED, KEPT, BALANCE, RESTING = 0, 1, 2, 3
GONE, SPARED = 1, 2


@numba.njit(cache=True)
def note_displaced(state: PoolState, layer: int, expert: int, row: int) -> None:
    """An expert is about to be read ahead into a row, or would be."""
    if state.owners[row] >= 0:
        state.displaced[layer, expert] = state.owners[row]


@numba.njit(cache=True, error_model="numpy")
def settle(state: PoolState, layer: int, counts: IntArray, copy_ns: int, gate_ns: int, guard: float) -> None:
    """Compare what reads ahead of the layer promised with what they save, or would have.

    A read that comes late saves what is left of it. One that nobody needs costs what the gate's own reads
    must wait for it, and the read of whom it displaced when that one is needed and missing the next time that
    its layer runs: later on it might not have stayed anyway. While reads ahead rest, whom they would have
    displaced is needed and held.
    """
    experts = counts.shape[0]
    promised = kept = 0.0
    in_vain = missing = False
    for expert in range(experts):
        promise_ns, arrival_ns = state.promise_ns[layer, expert], state.arrival_ns[layer, expert]
        held = state.places[layer, expert] != NEVER
        made = arrival_ns != NEVER
        if promise_ns > 0.0 and (made or not held):
            promised += promise_ns
            if counts[expert] > 0:
                comes_ns = arrival_ns if made else state.watched_ns[layer, expert]
                kept += copy_ns - max(0, comes_ns - gate_ns)
            else:
                in_vain |= made and arrival_ns > gate_ns
                displaced = state.displaced[layer, expert]
                if displaced >= 0:
                    state.pushed_out[displaced // experts, displaced % experts] = GONE if made else SPARED
        if counts[expert] > 0:
            missing |= not held
            if state.pushed_out[layer, expert] == (SPARED if held else GONE):
                kept -= copy_ns
        state.pushed_out[layer, expert] = 0
    if in_vain and missing:
        kept -= max(0, state.clock[LINK] - gate_ns)
    trust_reads(state.trust_ns, promised, kept, copy_ns, guard)


@numba.njit(cache=True)
def trust_reads(trust_ns: FloatArray, promised: float, kept: float, copy_ns: int, guard: float) -> None:
    """Take in a gate and decide whether reads ahead rest from now on.

    Parameters
    ----------
    trust_ns
        As of `prescope.runtime.control.pool.RowPool`; changed.
    promised, kept
        What reads ahead of the gate's layer promised to save, and what they did or would have.
    copy_ns
        Time of a read.
    guard
        As of `prescope.runtime.control.read_rules.ReadRules`.
    """
    trust_ns[PROMISED] = trust_ns[PROMISED] * FADE + promised
    trust_ns[KEPT] = trust_ns[KEPT] * FADE + kept
    earns = trust_ns[KEPT] >= guard * trust_ns[PROMISED]
    if trust_ns[RESTING] != 0.0:
        if earns:
            trust_ns[RESTING] = trust_ns[BALANCE] = 0.0
        return
    least_ns = -SLACK * copy_ns
    trust_ns[BALANCE] = max(min(0.0, trust_ns[BALANCE] + kept), least_ns)
    if trust_ns[BALANCE] <= least_ns and not earns:
        trust_ns[RESTING] = 1.0
