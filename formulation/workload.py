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
    dense_ns, copy_ns
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
    """

    table_ns: IntArray
    last_ns: IntArray
    demoted: IntArray
    max_copies: IntArray


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _sort_side(
    chosen: npt.NDArray[np.bool_], cpu_ns: IntArray, gpu_ns: IntArray, descending: bool
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    layers, experts = chosen.shape
    offsets = np.zeros(layers + 1, dtype=np.int64)
    for layer in range(layers):
        count = 0
        for expert in range(experts):
            count += chosen[layer, expert]
        offsets[layer + 1] = offsets[layer] + count
    ids = np.empty(offsets[layers], dtype=np.int64)
    out_cpu = np.empty(offsets[layers], dtype=np.int64)
    out_gpu = np.empty(offsets[layers], dtype=np.int64)
    sign = -1 if descending else 1
    place = 0
    for layer in range(layers):
        begin = place
        for expert in range(experts):
            if not chosen[layer, expert]:
                continue
            # Insertion by (cpu, gpu): stable, and fast because experts with few tokens tie often.
            cpu, gpu = sign * cpu_ns[layer, expert], sign * gpu_ns[layer, expert]
            at = place
            while at > begin:
                before_cpu, before_gpu = sign * out_cpu[at - 1], sign * out_gpu[at - 1]
                if before_cpu < cpu or (before_cpu == cpu and before_gpu <= gpu):
                    break
                ids[at], out_cpu[at], out_gpu[at] = ids[at - 1], out_cpu[at - 1], out_gpu[at - 1]
                at -= 1
            ids[at], out_cpu[at], out_gpu[at] = expert, sign * cpu, sign * gpu
            place += 1
    return offsets, ids, out_cpu, out_gpu


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _tables(work: Workload) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    layers = work.dense_ns.shape[0]
    max_copies = work.missing_offsets[1:] - work.missing_offsets[:-1]
    width = max_copies.max() + 1
    table_ns = np.zeros((layers, width), dtype=np.int64)
    last_ns = np.zeros((layers, width), dtype=np.int64)
    demoted = np.zeros((layers, width), dtype=np.int64)
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
    return table_ns, last_ns, demoted, max_copies


def workload(instance: Instance) -> Workload:
    """Sort and flatten the activated experts of an instance."""
    arrays = instance_arrays(instance)
    cpu_ns = arrays.cpu_ns
    # Without host computing its times mean nothing and must not decide the order.
    if not instance.host_computes:
        cpu_ns = np.zeros_like(cpu_ns)
    missing = _sort_side(arrays.active & ~arrays.resident, cpu_ns, arrays.gpu_ns, True)
    resident = _sort_side(arrays.active & arrays.resident, cpu_ns, arrays.gpu_ns, False)
    return Workload(
        slots=instance.slots,
        lookahead=min(instance.lookahead, instance.layers),
        link_ready_ns=instance.link_ready_ns,
        host_computes=instance.host_computes,
        dense_ns=arrays.dense_ns.copy(),
        copy_ns=arrays.copy_ns.copy(),
        missing_offsets=missing[0],
        missing=missing[1],
        missing_cpu_ns=missing[2],
        missing_gpu_ns=missing[3],
        resident_offsets=resident[0],
        resident=resident[1],
        resident_cpu_ns=resident[2],
        resident_gpu_ns=resident[3],
    )


def layer_tables(work: Workload) -> LayerTables:
    """The tables of all layers."""
    table_ns, last_ns, demoted, max_copies = _tables(work)
    return LayerTables(table_ns=table_ns, last_ns=last_ns, demoted=demoted, max_copies=max_copies)
