"""The compiled core of the exact evaluator: earliest start of every task of a packed plan.

Copies are taken up lazily: in link order, as far as the next device computation needs them. That is
exact, because a slot that is still unknown at that moment can only be freed by work that comes later
than the copy in question.
"""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

from prescope.formulation.demand import IntArray

FEASIBLE = 0
NO_FREE_SLOT = 1
NOT_RELEASED = 2

_UNKNOWN = -1


@numba.njit(cache=True)
def _advance(
    copy: int,
    last: int,
    layer: int,
    link_ready_ns: int,
    copy_ns: IntArray,
    copy_layer: IntArray,
    copy_slot: IntArray,
    copy_gate: IntArray,
    copy_used: npt.NDArray[np.bool_],
    gate_ns: IntArray,
    slot_free_ns: IntArray,
    slot_copy: IntArray,
    slot_of: IntArray,
    start_ns: IntArray,
    end_ns: IntArray,
) -> tuple[int, int]:
    """Start copies ``copy..last`` in link order; returns the next copy and a status code."""
    while copy <= last:
        release_ns = 0
        if copy_gate[copy] >= 0:
            if copy_gate[copy] > layer:
                return copy, NOT_RELEASED
            release_ns = gate_ns[copy_gate[copy]]
        slot = copy_slot[copy]
        if slot < 0:
            for candidate in range(slot_free_ns.shape[0]):
                if slot_free_ns[candidate] != _UNKNOWN and (
                    slot < 0 or slot_free_ns[candidate] < slot_free_ns[slot]
                ):
                    slot = candidate
        if slot < 0 or slot_free_ns[slot] == _UNKNOWN:
            return copy, NO_FREE_SLOT
        start = max(link_ready_ns if copy == 0 else end_ns[copy - 1], release_ns, slot_free_ns[slot])
        end = start + copy_ns[copy_layer[copy]]
        start_ns[copy] = start
        end_ns[copy] = end
        slot_of[copy] = slot
        slot_copy[slot] = copy
        slot_free_ns[slot] = _UNKNOWN
        if not copy_used[copy] and copy_layer[copy] <= layer:
            slot_free_ns[slot] = max(end, gate_ns[copy_layer[copy]])
        copy += 1
    return copy, FEASIBLE


@numba.njit(cache=True)
def evaluate_packed(
    slots: int,
    link_ready_ns: int,
    dense_ns: IntArray,
    prediction_ns: IntArray,
    copy_ns: IntArray,
    copy_layer: IntArray,
    copy_slot: IntArray,
    copy_gate: IntArray,
    copy_used: npt.NDArray[np.bool_],
    gpu_offsets: IntArray,
    gpu_copy: IntArray,
    gpu_ns: IntArray,
    cpu_offsets: IntArray,
    cpu_ns: IntArray,
) -> tuple[int, int, int, IntArray, IntArray, IntArray, IntArray, IntArray, IntArray, IntArray]:
    """Earliest times of all tasks.

    Returns
    -------
    status, blocked_copy, blocked_layer
        ``FEASIBLE``, or why and where the plan stops.
    gate_ns, layer_end_ns
        Per layer, int64 ``[L]``.
    copy_start_ns, copy_slots
        Per copy, int64 ``[K]``.
    gpu_start_ns, cpu_start_ns
        Per computation, int64 ``[G]`` and ``[C]``.
    prediction_start_ns
        Start of the prediction after each gate, int64 ``[L]``.
    """
    layers = dense_ns.shape[0]
    copies = copy_layer.shape[0]
    gate_ns = np.zeros(layers, dtype=np.int64)
    layer_end_ns = np.zeros(layers, dtype=np.int64)
    start_ns = np.zeros(copies, dtype=np.int64)
    end_ns = np.zeros(copies, dtype=np.int64)
    slot_of = np.full(copies, -1, dtype=np.int64)
    slot_free_ns = np.zeros(slots, dtype=np.int64)
    slot_copy = np.full(slots, -1, dtype=np.int64)
    gpu_start_ns = np.zeros(gpu_copy.shape[0], dtype=np.int64)
    cpu_start_ns = np.zeros(cpu_ns.shape[0], dtype=np.int64)
    prediction_start_ns = np.zeros(layers, dtype=np.int64)
    host_free = 0
    next_copy = 0
    layer_start = 0
    for layer in range(layers):
        gate = layer_start + dense_ns[layer]
        gate_ns[layer] = gate
        for slot in range(slots):
            held = slot_copy[slot]
            if held >= 0 and not copy_used[held] and copy_layer[held] == layer:
                slot_free_ns[slot] = max(end_ns[held], gate)
        gpu_end = gate
        for task in range(gpu_offsets[layer], gpu_offsets[layer + 1]):
            copy = gpu_copy[task]
            start = gpu_end
            if copy >= 0:
                next_copy, status = _advance(
                    next_copy,
                    copy,
                    layer,
                    link_ready_ns,
                    copy_ns,
                    copy_layer,
                    copy_slot,
                    copy_gate,
                    copy_used,
                    gate_ns,
                    slot_free_ns,
                    slot_copy,
                    slot_of,
                    start_ns,
                    end_ns,
                )
                if status != FEASIBLE:
                    return (
                        status,
                        next_copy,
                        layer,
                        gate_ns,
                        layer_end_ns,
                        start_ns,
                        slot_of,
                        gpu_start_ns,
                        cpu_start_ns,
                        prediction_start_ns,
                    )
                start = max(start, end_ns[copy])
            gpu_start_ns[task] = start
            gpu_end = start + gpu_ns[task]
            if copy >= 0:
                slot_free_ns[slot_of[copy]] = gpu_end
        cpu_end = max(gate, host_free)
        for task in range(cpu_offsets[layer], cpu_offsets[layer + 1]):
            cpu_start_ns[task] = cpu_end
            cpu_end += cpu_ns[task]
        prediction_start_ns[layer] = cpu_end
        host_free = cpu_end + prediction_ns[layer]
        layer_start = gpu_end
        if cpu_offsets[layer] < cpu_offsets[layer + 1]:
            layer_start = max(layer_start, cpu_end)
        if layer == layers - 1:
            layer_start = max(layer_start, host_free)
        layer_end_ns[layer] = layer_start
    next_copy, status = _advance(
        next_copy,
        copies - 1,
        layers - 1,
        link_ready_ns,
        copy_ns,
        copy_layer,
        copy_slot,
        copy_gate,
        copy_used,
        gate_ns,
        slot_free_ns,
        slot_copy,
        slot_of,
        start_ns,
        end_ns,
    )
    return (
        status,
        next_copy,
        layers - 1,
        gate_ns,
        layer_end_ns,
        start_ns,
        slot_of,
        gpu_start_ns,
        cpu_start_ns,
        prediction_start_ns,
    )
