"""The table of a coming layer as if its expected times were true ones."""

from __future__ import annotations

import numba
import numpy as np

from prescope.formulation.demand import FloatArray, IntArray
from prescope.formulation.reduction import fill_layer_table
from prescope.solver.online.gate_arrays import BoolArray
from prescope.solver.online.insertion import insert
from prescope.solver.online.outlook_tables import NEGLIGIBLE_NS


@numba.njit(cache=True)
def fill_plain_table(
    cpu_ns: FloatArray,
    gpu_ns: FloatArray,
    held: BoolArray,
    dense_ns: int,
    order: IntArray,
    table_ns: IntArray,
    last_ns: IntArray,
    demoted: IntArray,
) -> int:
    """Write a coming layer's table; returns its number of candidates.

    Parameters
    ----------
    cpu_ns, gpu_ns
        Expected time of each expert on either side, float64 ``[E]``.
    held
        Whether its weights will be there.
    dense_ns
        The layer before its gate.
    order
        Receives the candidates, heaviest host time first.
    table_ns, last_ns, demoted
        Receive the table as `prescope.formulation.reduction.fill_layer_table` does.
    """
    experts = cpu_ns.shape[0]
    there = np.empty(experts, dtype=np.int64)
    held_here = wanted = 0
    for expert in range(experts):
        if held[expert]:
            insert(there, held_here, expert, cpu_ns, 1)
            held_here += 1
        elif cpu_ns[expert] > NEGLIGIBLE_NS:
            insert(order, wanted, expert, cpu_ns, -1)
            wanted += 1
    fill_layer_table(
        _whole(cpu_ns, order, wanted),
        _whole(gpu_ns, order, wanted),
        _whole(cpu_ns, there, held_here),
        _whole(gpu_ns, there, held_here),
        dense_ns,
        wanted,
        True,
        table_ns,
        last_ns,
        demoted,
    )
    return wanted


@numba.njit(cache=True)
def _whole(values: FloatArray, experts: IntArray, length: int) -> IntArray:
    chosen = np.empty(length, dtype=np.int64)
    for rank in range(length):
        chosen[rank] = int(values[experts[rank]])
    return chosen
