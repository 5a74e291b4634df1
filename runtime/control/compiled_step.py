"""One gate of a running step as a single compiled call: forecasts, decision, clock and slots.

It does what `prescope.runtime.control.OnlineStep` does with a policy that has a `PolicyCode`, to the
nanosecond.
"""

from __future__ import annotations

import numba
import numpy as np

from prescope.formulation.demand import IntArray
from prescope.runtime.control.step_state import HOST_FREE, LAYER_END, LINK, NEVER, Site, StepState
from prescope.solver.online.kernel import Coming, Gate, PolicyCode, decide

_HELD = -1

# What is left of a gate's promises at the next one: the guard looks back over some fifty gates.
_FADE = 0.98


@numba.njit(cache=True, error_model="numpy")
def _expect(site: Site, state: StepState, layer: int, ahead: int) -> None:
    """Fill row ``ahead`` of the coming layers from the probabilities and tokens that it holds."""
    target = layer + 1 + ahead
    gpu_row = site.gpu_ns[target % site.gpu_ns.shape[0]]
    cpu_row = site.cpu_ns[target % site.cpu_ns.shape[0]]
    chance = state.coming.probability[ahead]
    cpu_ns, gpu_ns, held = state.coming.cpu_ns[ahead], state.coming.gpu_ns[ahead], state.coming.held[ahead]
    resident, arrival_ns = site.resident[target], state.arrival_ns[target]
    copy_ns = float(site.copy_ns[target])
    most = float(max(1, site.tokens))
    for expert in range(chance.shape[0]):
        held[expert] = resident[expert] or arrival_ns[expert] != NEVER
        share = chance[expert]
        if share <= 0.0:
            cpu_ns[expert] = gpu_ns[expert] = 0.0
            continue
        mean = min(max(cpu_ns[expert] / share, 1.0), most)
        whole = int(mean)
        rest = mean - whole
        gpu_ns[expert] = share * (gpu_row[whole] * (1.0 - rest) + gpu_row[whole + 1] * rest)
        if site.host_computes:
            cpu_ns[expert] = share * (cpu_row[whole] * (1.0 - rest) + cpu_row[whole + 1] * rest)
        else:
            # What is not brought ahead costs its copy later, and then its computation all the same.
            cpu_ns[expert] = share * copy_ns + gpu_ns[expert]
    state.coming.dense_ns[ahead] = site.dense_ns[target]
    state.coming.copy_ns[ahead] = site.copy_ns[target]


@numba.njit(cache=True, error_model="numpy")
def run_gate(
    site: Site, state: StepState, layer: int, counts: IntArray, ahead: int, code: PolicyCode
) -> None:
    """Decide ``layer`` (-1 is the start) from its true counts and forecasts.

    The first ``ahead`` rows of ``state.coming`` hold the forecasts: ``probability`` theirs, and ``cpu_ns``
    the expected tokens, in whose place the costs are written.
    """
    for row in range(ahead):
        _expect(site, state, layer, row)
    experts = counts.shape[0]
    clock, slot_free_ns, answer = state.clock, state.slot_free_ns, state.answer
    gate_ns = 0
    if layer >= 0:
        gate_ns = clock[LAYER_END] + site.dense_ns[layer]
    here = max(layer, 0)
    gpu_row = site.gpu_ns[here % site.gpu_ns.shape[0]]
    cpu_row = site.cpu_ns[here % site.cpu_ns.shape[0]]
    gpu_ns = np.empty(experts, dtype=np.int64)
    cpu_ns = np.empty(experts, dtype=np.int64)
    arrival = np.empty(experts, dtype=np.int64)
    active = np.empty(experts, dtype=np.bool_)
    held_now = 0
    for expert in range(experts):
        gpu_ns[expert] = gpu_row[counts[expert]]
        cpu_ns[expert] = cpu_row[counts[expert]]
        active[expert] = counts[expert] > 0
        arrival[expert] = NEVER
        if layer >= 0:
            end_ns = state.arrival_ns[layer, expert]
            if end_ns != NEVER:
                held_now += 1
                arrival[expert] = max(0, end_ns - gate_ns)
            if site.resident[layer, expert]:
                arrival[expert] = 0
    slots = slot_free_ns.shape[0]
    held = 0
    for slot in range(slots):
        if slot_free_ns[slot] == _HELD:
            held += 1
    free = slots - (held - held_now)
    gate = Gate(
        layer,
        gpu_ns,
        cpu_ns,
        active,
        arrival,
        site.resident[here],
        site.copy_ns[here],
        max(0, clock[LINK] - gate_ns),
        max(0, clock[HOST_FREE] - gate_ns),
        free,
        free if site.host_computes else max(0, free - 1),
        site.host_computes,
    )
    coming = Coming(
        state.coming.cpu_ns[:ahead],
        state.coming.gpu_ns[:ahead],
        state.coming.probability[:ahead],
        state.coming.held[:ahead],
        state.coming.dense_ns[:ahead],
        state.coming.copy_ns[:ahead],
    )
    gpu, cpu, wishes, _ = decide(gate, coming, code, answer)
    if code.guard > 0.0:
        _note(state, layer, coming, wishes)
        trust = state.trust_ns
        if trust[1] < code.guard * trust[0]:
            # Wishes are watched, not granted.
            nothing = Coming(
                coming.cpu_ns[:0],
                coming.gpu_ns[:0],
                coming.probability[:0],
                coming.held[:0],
                coming.dense_ns[:0],
                coming.copy_ns[:0],
            )
            gpu, cpu, wishes, _ = decide(gate, nothing, code, answer)
        if layer >= 0:
            _settle(state, layer, gpu, cpu_ns)
    state.counters[1] = gpu
    state.counters[2] = cpu
    if layer >= 0:
        _run_layer(site, state, layer, gpu, cpu, gpu_ns, cpu_ns, gate_ns)
    next_gate_ns = clock[LAYER_END]
    if layer + 1 < site.dense_ns.shape[0]:
        next_gate_ns += site.dense_ns[layer + 1]
    # Where every missing expert must be copied, one slot always stays with the layer at hand.
    spare = 0 if site.host_computes else -1
    for slot in range(slots):
        if slot_free_ns[slot] != _HELD:
            spare += 1
    for rank in range(min(wishes, max(0, spare))):
        slot = _first_free(slot_free_ns)
        if max(clock[LINK], gate_ns, slot_free_ns[slot]) >= next_gate_ns:
            break
        _copy(site, state, layer + answer.wish_ahead[rank], answer.wish_expert[rank], layer, gate_ns)


@numba.njit(cache=True, error_model="numpy")
def _note(state: StepState, layer: int, coming: Coming, wishes: int) -> None:
    """Remember what is wished now instead of what was wished before and not issued."""
    ahead, experts = coming.cpu_ns.shape
    for row in range(ahead):
        for expert in range(experts):
            if state.arrival_ns[layer + 1 + row, expert] == NEVER:
                state.promise_ns[layer + 1 + row, expert] = 0.0
    for rank in range(wishes):
        row, expert = state.answer.wish_ahead[rank] - 1, state.answer.wish_expert[rank]
        state.promise_ns[layer + 1 + row, expert] = coming.cpu_ns[row, expert]


@numba.njit(cache=True, error_model="numpy")
def _settle(state: StepState, layer: int, gpu: int, cpu_ns: IntArray) -> None:
    """Compare what the layer's wishes promised with what they saved, or would have."""
    promised = kept = 0.0
    promise_ns, arrival_ns = state.promise_ns[layer], state.arrival_ns[layer]
    for expert in range(promise_ns.shape[0]):
        if promise_ns[expert] > 0.0:
            promised += promise_ns[expert]
            # A copy that came too late saved nothing.
            if arrival_ns[expert] == NEVER:
                kept += cpu_ns[expert]
    for rank in range(gpu):
        expert = state.answer.gpu[rank]
        if promise_ns[expert] > 0.0 and arrival_ns[expert] != NEVER:
            kept += cpu_ns[expert]
    state.trust_ns[0] = state.trust_ns[0] * _FADE + promised
    state.trust_ns[1] = state.trust_ns[1] * _FADE + kept


@numba.njit(cache=True, error_model="numpy")
def _run_layer(
    site: Site,
    state: StepState,
    layer: int,
    gpu: int,
    cpu: int,
    gpu_ns: IntArray,
    cpu_ns: IntArray,
    gate_ns: int,
) -> None:
    clock, slot_free_ns = state.clock, state.slot_free_ns
    slot_of, arrival_ns = state.slot_of[layer], state.arrival_ns[layer]
    experts = slot_of.shape[0]
    used = np.zeros(experts, dtype=np.bool_)
    for rank in range(gpu):
        used[state.answer.gpu[rank]] = True
    for expert in range(experts):
        if arrival_ns[expert] != NEVER and not used[expert]:
            slot_free_ns[slot_of[expert]] = max(arrival_ns[expert], gate_ns)
    device = gate_ns
    for rank in range(gpu):
        expert = state.answer.gpu[rank]
        if site.resident[layer, expert]:
            device += gpu_ns[expert]
            continue
        if arrival_ns[expert] == NEVER:
            _copy(site, state, layer, expert, layer, gate_ns)
        device = max(device, arrival_ns[expert]) + gpu_ns[expert]
        slot_free_ns[slot_of[expert]] = device
    host = max(gate_ns, clock[HOST_FREE])
    for rank in range(cpu):
        host += cpu_ns[state.answer.cpu[rank]]
    end = max(device, host) if cpu > 0 else device
    clock[HOST_FREE] = host + site.prediction_ns[layer]
    if layer + 1 == site.dense_ns.shape[0]:
        # A step is over when its last prediction is.
        end = max(end, clock[HOST_FREE])
    clock[LAYER_END] = end


@numba.njit(cache=True)
def _first_free(slot_free_ns: IntArray) -> int:
    best = -1
    for slot in range(slot_free_ns.shape[0]):
        if slot_free_ns[slot] != _HELD and (best < 0 or slot_free_ns[slot] < slot_free_ns[best]):
            best = slot
    if best < 0:
        raise ValueError("expected a free slot, got all of them held for later layers")
    return best


@numba.njit(cache=True)
def _copy(site: Site, state: StepState, layer: int, expert: int, gate: int, gate_ns: int) -> None:
    slot = _first_free(state.slot_free_ns)
    start_ns = max(state.clock[LINK], gate_ns, state.slot_free_ns[slot])
    state.clock[LINK] = start_ns + site.copy_ns[layer]
    state.slot_free_ns[slot] = _HELD
    state.slot_of[layer, expert] = slot
    state.arrival_ns[layer, expert] = state.clock[LINK]
    row = state.copies[state.counters[0]]
    row[0], row[1], row[2], row[3] = layer, expert, slot, gate
    state.counters[0] += 1
