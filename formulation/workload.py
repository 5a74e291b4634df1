"""An instance sorted and flattened for compiled planners: who is missing, who is resident, layer by layer."""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from prescope.formulation.arrays import instance_arrays
from prescope.formulation.demand import IntArray
from prescope.formulation.instance import Instance
from prescope.formulation.reduction import fill_layer_table


class Workload(NamedTuple):
    """Activated experts of ``L`` layers: ``M`` missing and ``R`` resident ones in all.

    A named tuple because compiled code takes it as one argument. All arrays are fresh and writable, so that
    compiled code is specialised once; nobody writes to them.

    Parameters
    ----------
    slots, lookahead, link_ready_ns, host_computes
        As in the instance; ``lookahead`` is cut to ``L``, beyond which it changes nothing.
    dense_ns, copy_ns, prediction_ns
        Per layer, int64 ``[L]``.
    missing_offsets, missing, missing_cpu_ns, missing_gpu_ns
        Where each layer begins, int64 ``[L + 1]``; expert and its two times, int64 ``[M]``, in each layer
        heaviest first (by host time, then device time; by device time alone where the host cannot compute).
    resident_offsets, resident, resident_cpu_ns, resident_gpu_ns
        The same for residents, lightest first, int64 ``[R]``.
    """

    slots: int
    lookahead: int
    link_ready_ns: int
    host_computes: bool
    dense_ns: IntArray
    copy_ns: IntArray
    prediction_ns: IntArray
    missing_offsets: IntArray
    missing: IntArray
    missing_cpu_ns: IntArray
    missing_gpu_ns: IntArray
    resident_offsets: IntArray
    resident: IntArray
    resident_cpu_ns: IntArray
    resident_gpu_ns: IntArray


class LayerTables(NamedTuple):
    """Every layer's table, padded to the longest; a named tuple like `Workload`.

    Parameters
    ----------
    table_ns, last_ns, demoted
        Rows of `prescope.formulation.reduction.layer_table`, int64 ``[L, width]``.
    max_copies
        Missing activated experts of each layer, int64 ``[L]``; entries beyond are not set.
    useful
        The number of copies with the shortest time, int64 ``[L]``: more of them only use the link.
    """

    table_ns: IntArray
    last_ns: IntArray
    demoted: IntArray
    max_copies: IntArray
    useful: IntArray


@numba.njit(cache=True)
def _insert(
    cpu: int, gpu: int, expert: int, begin: int, end: int, ids: IntArray, out_cpu: IntArray, out_gpu: IntArray
) -> None:
    """Put one expert into the ascending places ``begin..end``, behind its equals."""
    at = end
    while at > begin and (out_cpu[at - 1] > cpu or (out_cpu[at - 1] == cpu and out_gpu[at - 1] > gpu)):
        ids[at], out_cpu[at], out_gpu[at] = ids[at - 1], out_cpu[at - 1], out_gpu[at - 1]
        at -= 1
    ids[at], out_cpu[at], out_gpu[at] = expert, cpu, gpu


@numba.njit(cache=True)
def flatten(
    active: npt.NDArray[np.bool_],
    resident: npt.NDArray[np.bool_],
    cpu_ns: IntArray,
    gpu_ns: IntArray,
    host_computes: bool,
) -> tuple[IntArray, IntArray, IntArray, IntArray, IntArray, IntArray, IntArray, IntArray]:
    """Sort and flatten the activated experts of ``L`` layers of ``E`` experts (arrays ``[L, E]``).

    Returns
    -------
    tuple
        The last eight fields of `Workload`, in its order.
    """
    layers, experts = active.shape
    missing_offsets = np.zeros(layers + 1, dtype=np.int64)
    resident_offsets = np.zeros(layers + 1, dtype=np.int64)
    for layer in range(layers):
        here = missing = 0
        for expert in range(experts):
            if active[layer, expert]:
                here += resident[layer, expert]
                missing += not resident[layer, expert]
        missing_offsets[layer + 1] = missing_offsets[layer] + missing
        resident_offsets[layer + 1] = resident_offsets[layer] + here
    missing_id = np.empty(missing_offsets[layers], dtype=np.int64)
    missing_cpu, missing_gpu = np.empty_like(missing_id), np.empty_like(missing_id)
    resident_id = np.empty(resident_offsets[layers], dtype=np.int64)
    resident_cpu, resident_gpu = np.empty_like(resident_id), np.empty_like(resident_id)
    end_missing = end_resident = 0
    for layer in range(layers):
        low, left = missing_offsets[layer], resident_offsets[layer]
        for expert in range(experts):
            if not active[layer, expert]:
                continue
            # Without host computing its times mean nothing and must not decide the order.
            cpu = cpu_ns[layer, expert] if host_computes else 0
            gpu = gpu_ns[layer, expert]
            if resident[layer, expert]:
                _insert(cpu, gpu, expert, left, end_resident, resident_id, resident_cpu, resident_gpu)
                end_resident += 1
            else:
                # Negated times sort descending.
                _insert(-cpu, -gpu, expert, low, end_missing, missing_id, missing_cpu, missing_gpu)
                end_missing += 1
    return (
        missing_offsets,
        missing_id,
        -missing_cpu,
        -missing_gpu,
        resident_offsets,
        resident_id,
        resident_cpu,
        resident_gpu,
    )


@numba.njit(cache=True)
def layer_tables(work: Workload) -> LayerTables:
    """The tables of all layers."""
    layers = work.dense_ns.shape[0]
    max_copies = np.zeros(layers, dtype=np.int64)
    width = 1
    for layer in range(layers):
        max_copies[layer] = work.missing_offsets[layer + 1] - work.missing_offsets[layer]
        width = max(width, max_copies[layer] + 1)
    table_ns = np.zeros((layers, width), dtype=np.int64)
    last_ns = np.zeros((layers, width), dtype=np.int64)
    demoted = np.zeros((layers, width), dtype=np.int64)
    useful = np.zeros(layers, dtype=np.int64)
    for layer in range(layers):
        low, high = work.missing_offsets[layer], work.missing_offsets[layer + 1]
        left, right = work.resident_offsets[layer], work.resident_offsets[layer + 1]
        fill_layer_table(
            work.missing_cpu_ns[low:high],
            work.missing_gpu_ns[low:high],
            work.resident_cpu_ns[left:right],
            work.resident_gpu_ns[left:right],
            work.dense_ns[layer],
            max_copies[layer],
            work.host_computes,
            table_ns[layer],
            last_ns[layer],
            demoted[layer],
        )
        for copies in range(max_copies[layer] + 1 if work.slots > 0 else 0):
            if table_ns[layer, copies] < table_ns[layer, useful[layer]]:
                useful[layer] = copies
    return LayerTables(table_ns, last_ns, demoted, max_copies, useful)


def workload(instance: Instance) -> Workload:
    """Sort and flatten the activated experts of an instance."""
    arrays = instance_arrays(instance)
    flat = flatten(arrays.active, arrays.resident, arrays.cpu_ns, arrays.gpu_ns, instance.host_computes)
    return Workload(
        slots=instance.slots,
        lookahead=min(instance.lookahead, instance.layers),
        link_ready_ns=instance.link_ready_ns,
        host_computes=instance.host_computes,
        dense_ns=arrays.dense_ns.copy(),
        copy_ns=arrays.copy_ns.copy(),
        prediction_ns=arrays.prediction_ns.copy(),
        missing_offsets=flat[0],
        missing=flat[1],
        missing_cpu_ns=flat[2],
        missing_gpu_ns=flat[3],
        resident_offsets=flat[4],
        resident=flat[5],
        resident_cpu_ns=flat[6],
        resident_gpu_ns=flat[7],
    )
