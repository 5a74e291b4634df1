"""A gate with the guard of policy ``expected``: prefetch rests while it loses time.

Without prefetch, what a layer takes depends on nothing before it. So the gain of prefetch at a gate is known
exactly, on the modelled clock: the layer's end without any copy brought ahead and with a free link, less the
one that it has. While prefetch rests a shadow of the step goes on with it, and is compared with the step.
"""

from __future__ import annotations

import numba

from prescope.formulation.demand import IntArray
from prescope.runtime.control.compiled_step import advance
from prescope.runtime.control.step_state import HOST_FREE, LAYER_END, Shadow, Site, StepState
from prescope.solver.online.gate_arrays import PolicyCode
from prescope.solver.online.guard import RESTING, weigh
from prescope.solver.online.least_end import least_end
from prescope.solver.online.recalibrate import learn, recalibrate


@numba.njit(cache=True, error_model="numpy")
def run_gate(
    site: Site, state: StepState, layer: int, counts: IntArray, ahead: int, code: PolicyCode
) -> None:
    """Decide ``layer`` (-1 is the start) from its true counts and forecasts.

    The first ``ahead`` rows of ``state.coming`` hold the forecasts: ``probability`` theirs, and ``cpu_ns``
    the expected tokens, in whose place the costs are written.
    """
    guarded, trust_ns = code.guard > 0.0, state.trust_ns
    resting = guarded and trust_ns[RESTING] != 0.0
    if guarded:
        if layer >= 0:
            learn(state.calibration, layer, counts)
        recalibrate(state.calibration, layer, state.coming.probability, state.coming.cpu_ns, ahead)
    without_ns = 0
    if guarded and layer >= 0 and not resting:
        without_ns = site.dense_ns[layer] + _without(site, state, layer, counts)
    shadow = _shadow(state)
    began_ns, shadow_began_ns = state.clock[LAYER_END], shadow.clock[LAYER_END]
    # The shadow first, so that the answer is the step's in the end. One call: compiled twice it takes long.
    for course in range(0 if resting else 1, 2):
        advance(
            site,
            state if course == 1 else shadow,
            layer,
            counts,
            0 if resting and course == 1 else ahead,
            code,
        )
    if not guarded or layer < 0:
        return
    taken_ns = state.clock[LAYER_END] - began_ns
    if not resting and _ends_with_forecasts(site, state, layer, began_ns):
        # It would have lasted as long without prefetch, however its experts had come.
        return
    if resting:
        weigh(trust_ns, taken_ns, taken_ns - (shadow.clock[LAYER_END] - shadow_began_ns), code.guard)
    elif weigh(trust_ns, without_ns, without_ns - taken_ns, code.guard):
        _remember(state)


@numba.njit(cache=True)
def _without(site: Site, state: StepState, layer: int, counts: IntArray) -> int:
    """What the layer would take from its gate on with a free link and nothing brought ahead."""
    gate_ns = state.clock[LAYER_END] + site.dense_ns[layer]
    return least_end(
        counts,
        site.gpu_ns[layer % site.gpu_ns.shape[0]],
        site.cpu_ns[layer % site.cpu_ns.shape[0]],
        site.resident[layer],
        site.copy_ns[layer],
        max(0, state.clock[HOST_FREE] - gate_ns),
        state.slot_free_ns.shape[0],
        site.host_computes,
    )


@numba.njit(cache=True)
def _ends_with_forecasts(site: Site, state: StepState, layer: int, began_ns: int) -> bool:
    """Whether the layer is the last one and over when the host has made the step's last forecasts."""
    host_ns = state.clock[HOST_FREE]
    if layer + 1 < site.dense_ns.shape[0] or host_ns < state.clock[LAYER_END]:
        return False
    at_forecasts = state.counters[2] == 0 and host_ns > began_ns + site.dense_ns[layer]
    return bool(site.prediction_ns[layer] > 0 or at_forecasts)


@numba.njit(cache=True)
def _shadow(state: StepState) -> StepState:
    """The step as its shadow: its own course, the same forecasts."""
    shadow = state.shadow
    return StepState(
        shadow.clock,
        shadow.slot_free_ns,
        shadow.slot_of,
        shadow.arrival_ns,
        shadow.copies,
        shadow.counters,
        state.answer,
        state.coming,
        shadow,
        state.calibration,
        state.trust_ns,
    )


@numba.njit(cache=True)
def _remember(state: StepState) -> None:
    """The shadow goes on from where the step is."""
    shadow: Shadow = state.shadow
    shadow.clock[:] = state.clock
    shadow.slot_free_ns[:] = state.slot_free_ns
    shadow.slot_of[:] = state.slot_of
    shadow.arrival_ns[:] = state.arrival_ns
    # The copies up to now are not needed: only their number is, as the shadow counts on.
    shadow.counters[:] = state.counters
