"""What reading ahead promised and what came of it, compiled; see `PooledStep` for the plain form."""

from __future__ import annotations

import numba

from prescope.formulation.demand import IntArray
from prescope.runtime.control.pooled_site import PoolState
from prescope.runtime.control.read_rules import FADE
from prescope.runtime.control.step_state import LINK, NEVER


@numba.njit(cache=True)
def note_displaced(state: PoolState, layer: int, expert: int, row: int) -> None:
    """An expert is about to be read ahead into a row."""
    if state.owners[row] >= 0:
        state.displaced[layer, expert] = state.owners[row]


@numba.njit(cache=True, error_model="numpy")
def settle(state: PoolState, layer: int, counts: IntArray, copy_ns: int, gate_ns: int) -> None:
    """Compare what reads ahead of the layer promised with what they save, or would have.

    A read that comes late saves what is left of it. One that nobody needs costs what the gate's own reads
    must wait for it, and the read of whom it displaced when that one is needed and missing.
    """
    experts = counts.shape[0]
    promised = kept = 0.0
    in_vain = missing = False
    for expert in range(experts):
        promise_ns, arrival_ns = state.promise_ns[layer, expert], state.arrival_ns[layer, expert]
        held = state.places[layer, expert] != NEVER
        if promise_ns > 0.0 and (arrival_ns != NEVER or not held):
            promised += promise_ns
            if counts[expert] > 0 and arrival_ns != NEVER:
                kept += copy_ns - max(0, arrival_ns - gate_ns)
            elif counts[expert] > 0:
                kept += copy_ns
            elif arrival_ns != NEVER:
                in_vain |= arrival_ns > gate_ns
                displaced = state.displaced[layer, expert]
                if displaced >= 0:
                    state.pushed_out[displaced // experts, displaced % experts] = True
        if counts[expert] > 0:
            missing |= not held
            if state.pushed_out[layer, expert] and not held:
                kept -= copy_ns
            state.pushed_out[layer, expert] = False
    if in_vain and missing:
        kept -= max(0, state.clock[LINK] - gate_ns)
    state.trust_ns[0] = state.trust_ns[0] * FADE + promised
    state.trust_ns[1] = state.trust_ns[1] * FADE + kept
