"""One gate of a running step as a single compiled call: forecasts, decision, clock and slots.

It does what `prescope.runtime.control.OnlineStep` does with a policy that has a `PolicyCode`, to the
nanosecond.
"""

from __future__ import annotations

import numba
import numpy as np

from prescope.formulation.demand import IntArray
from prescope.runtime.control.expected_costs import fill_expected_costs, fill_held
from prescope.runtime.control.step_state import HOST_FREE, LAYER_END, LINK, NEVER, Site, StepState
from prescope.solver.online.gate_arrays import Coming, Gate, PolicyCode
from prescope.solver.online.kernel import decide
from prescope.solver.online.overlap import worth_overlap

_HELD = -1


@numba.njit(cache=True, error_model="numpy")
def _expect(site: Site, state: StepState, layer: int, ahead: int) -> None:
    """Fill the first ``ahead`` of the coming layers from the probabilities and tokens that they hold."""
    coming, resident, arrival_ns = state.coming, site.resident, state.arrival_ns
    probability, cpu_ns, gpu_ns, held = coming.probability, coming.cpu_ns, coming.gpu_ns, coming.held
    gpu_rows, cpu_rows, dense_ns, copy_ns = site.gpu_ns, site.cpu_ns, site.dense_ns, site.copy_ns
    for row in range(ahead):
        target = layer + 1 + row
        fill_held(resident[target], arrival_ns[target], held[row])
        fill_expected_costs(
            probability[row],
            gpu_rows[target % gpu_rows.shape[0]],
            cpu_rows[target % cpu_rows.shape[0]],
            copy_ns[target],
            site.tokens,
            site.host_computes,
            cpu_ns[row],
            gpu_ns[row],
        )
        coming.dense_ns[row] = dense_ns[target]
        coming.copy_ns[row] = copy_ns[target]


@numba.njit(cache=True, error_model="numpy")
def advance(site: Site, state: StepState, layer: int, counts: IntArray, ahead: int, code: PolicyCode) -> None:
    """Decide ``layer`` (-1 is the start) from its true counts and forecasts.

    The first ``ahead`` rows of ``state.coming`` hold the forecasts: ``probability`` theirs, and ``cpu_ns``
    the expected tokens, in whose place the costs are written.
    """
    _expect(site, state, layer, ahead)
    experts = counts.shape[0]
    clock, slot_free_ns, answer = state.clock, state.slot_free_ns, state.answer
    gate_ns = 0
    if layer >= 0:
        gate_ns = clock[LAYER_END] + site.dense_ns[layer]
    here = max(layer, 0)
    gpu_row = site.gpu_ns[here % site.gpu_ns.shape[0]]
    cpu_row = site.cpu_ns[here % site.cpu_ns.shape[0]]
    now = np.empty((3, experts), dtype=np.int64)
    gpu_ns, cpu_ns, arrival = now[0], now[1], now[2]
    active = np.empty(experts, dtype=np.bool_)
    resident, landed_ns = site.resident[here], state.arrival_ns[here]
    held_now = 0
    for expert in range(experts):
        tokens = counts[expert]
        gpu_ns[expert] = gpu_row[tokens]
        cpu_ns[expert] = cpu_row[tokens]
        active[expert] = tokens > 0
        arrival[expert] = NEVER
        if layer >= 0:
            end_ns = landed_ns[expert]
            if end_ns != NEVER:
                held_now += 1
                arrival[expert] = max(0, end_ns - gate_ns)
            if resident[expert]:
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
        resident,
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
    ahead_ns = 0
    wish_ahead, wish_expert, copy_ns = answer.wish_ahead, answer.wish_expert, site.copy_ns
    for rank in range(min(wishes, max(0, spare))):
        slot = _first_free(slot_free_ns)
        start_ns = max(clock[LINK], gate_ns, slot_free_ns[slot])
        if start_ns >= next_gate_ns:
            break
        target, expert = layer + wish_ahead[rank], wish_expert[rank]
        over_ns = start_ns + copy_ns[target] - next_gate_ns
        # With one coming layer nothing is known of what the link is worth after it.
        if code.waits and site.host_computes and over_ns > 0 and ahead > 1:
            worth = worth_overlap(
                coming.cpu_ns[0],
                coming.gpu_ns[0],
                coming.probability[0],
                coming.held[0],
                expert if target == layer + 1 else -1,
                copy_ns[layer + 1],
                over_ns,
                ahead_ns,
                answer.scratch.value[1, : gate.free_slots + 1],
                coming.copy_ns[1],
            )
            if not worth:
                break
        if target == layer + 1:
            coming.held[0, expert] = True
        else:
            ahead_ns += copy_ns[target]
        _copy(site, state, target, expert, layer, gate_ns)


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
    slot_of, arrival_ns, resident = state.slot_of[layer], state.arrival_ns[layer], site.resident[layer]
    on_device, on_host = state.answer.gpu, state.answer.cpu
    experts = slot_of.shape[0]
    used = np.zeros(experts, dtype=np.bool_)
    for rank in range(gpu):
        used[on_device[rank]] = True
    for expert in range(experts):
        if arrival_ns[expert] != NEVER and not used[expert]:
            slot_free_ns[slot_of[expert]] = max(arrival_ns[expert], gate_ns)
    device = gate_ns
    for rank in range(gpu):
        expert = on_device[rank]
        if resident[expert]:
            device += gpu_ns[expert]
            continue
        if arrival_ns[expert] == NEVER:
            _copy(site, state, layer, expert, layer, gate_ns)
        device = max(device, arrival_ns[expert]) + gpu_ns[expert]
        slot_free_ns[slot_of[expert]] = device
    host = max(gate_ns, clock[HOST_FREE])
    for rank in range(cpu):
        host += cpu_ns[on_host[rank]]
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
    clock, slot_free_ns, counters = state.clock, state.slot_free_ns, state.counters
    slot = _first_free(slot_free_ns)
    end_ns = max(clock[LINK], gate_ns, slot_free_ns[slot]) + site.copy_ns[layer]
    clock[LINK] = end_ns
    slot_free_ns[slot] = _HELD
    state.slot_of[layer, expert] = slot
    state.arrival_ns[layer, expert] = end_ns
    row = state.copies[counters[0]]
    row[0], row[1], row[2], row[3] = layer, expert, slot, gate
    counters[0] += 1
