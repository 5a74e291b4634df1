"""How long a layer takes when nothing but itself counts: what prefetch is weighed against."""

from __future__ import annotations

import numba
import numpy as np

from prescope.formulation.demand import IntArray
from prescope.solver.online.gate_arrays import BoolArray
from prescope.solver.online.split import split_costs


@numba.njit(cache=True)
def least_end(
    counts: IntArray,
    gpu_row: IntArray,
    cpu_row: IntArray,
    resident: BoolArray,
    copy_ns: int,
    host_free_ns: int,
    slots: int,
    host_computes: bool,
) -> int:
    """How long a layer takes from its gate on, with a free link and nothing brought, when only it counts.

    Parameters
    ----------
    counts
        Tokens of its experts, int64 ``[E]``.
    gpu_row, cpu_row
        Time of an expert by tokens.
    resident
        Experts on the device, bool ``[E]``.
    copy_ns, host_free_ns, slots, host_computes
        As for `prescope.solver.online.split.split_costs`.
    """
    experts = counts.shape[0]
    room = np.empty((4, experts), dtype=np.int64)
    ready_gpu_ns, ready_cpu_ns, missing_gpu_ns, missing_cpu_ns = room[0], room[1], room[2], room[3]
    readies = misses = 0
    for expert in range(experts):
        tokens = counts[expert]
        if tokens > 0:
            gpu_ns, cpu_ns = gpu_row[tokens], cpu_row[tokens]
            if resident[expert]:
                place = readies
                readies += 1
                while place > 0 and ready_cpu_ns[place - 1] > cpu_ns:
                    ready_gpu_ns[place] = ready_gpu_ns[place - 1]
                    ready_cpu_ns[place] = ready_cpu_ns[place - 1]
                    place -= 1
                ready_gpu_ns[place], ready_cpu_ns[place] = gpu_ns, cpu_ns
            else:
                place = misses
                misses += 1
                while place > 0 and missing_cpu_ns[place - 1] < cpu_ns:
                    missing_gpu_ns[place] = missing_gpu_ns[place - 1]
                    missing_cpu_ns[place] = missing_cpu_ns[place - 1]
                    place -= 1
                missing_gpu_ns[place], missing_cpu_ns[place] = gpu_ns, cpu_ns
    none = room[0, :0]
    every = not host_computes
    end_ns, _, _, _ = split_costs(
        ready_gpu_ns[:readies],
        ready_cpu_ns[:readies],
        none,
        none,
        none,
        missing_gpu_ns[:misses],
        missing_cpu_ns[:misses],
        copy_ns,
        0,
        host_free_ns,
        slots,
        host_computes,
        every,
        0,
    )
    return int(end_ns[-1] if every else end_ns.min())
