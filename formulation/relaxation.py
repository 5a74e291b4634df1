"""A layer's relaxed table: what no plan can beat, whatever experts it copies or demotes."""

from __future__ import annotations

import numba
import numpy as np

from prescope.formulation.demand import IntArray
from prescope.formulation.reduction import IMPOSSIBLE_NS


@numba.njit(cache=True)
def cheapest_sums(times_ns: IntArray) -> IntArray:
    """Sum of the ``k`` smallest, for every ``k``; int64 ``[n + 1]``."""
    count = times_ns.shape[0]
    sums = np.zeros(count + 1, dtype=np.int64)
    # Insertion: the times come nearly sorted one way or the other, and np.sort takes seconds to compile.
    down = count > 1 and times_ns[0] > times_ns[count - 1]
    for place in range(count):
        time = times_ns[count - 1 - place] if down else times_ns[place]
        at = place + 1
        while at > 1 and sums[at - 1] > time:
            sums[at] = sums[at - 1]
            at -= 1
        sums[at] = time
    for rank in range(count):
        sums[rank + 1] += sums[rank]
    return sums


@numba.njit(cache=True)
def fill_relaxed_table(
    missing_cpu_ns: IntArray,
    missing_gpu_ns: IntArray,
    resident_cpu_ns: IntArray,
    resident_gpu_ns: IntArray,
    dense_ns: int,
    copy_ns: int,
    host_computes: bool,
    table_ns: IntArray,
    tail_ns: IntArray,
) -> None:
    """Write lower bounds on a layer that copies ``m`` experts, for ``m = 0..M``.

    The work left to the host and to the device is bounded independently: the cheapest experts that could
    be there, with any number of demoted residents.

    Parameters
    ----------
    missing_cpu_ns, missing_gpu_ns, resident_cpu_ns, resident_gpu_ns
        Times of the layer's activated experts in any order, int64 ``[M]`` and ``[R]``.
    dense_ns, copy_ns, host_computes
        As in the instance.
    table_ns
        Receives: the layer lasts at least this long; at least ``M + 1`` entries.
    tail_ns
        Receives: it ends at least this long after the last of its ``m`` copies could have landed on a link
        that never pauses: ``max_r (r cheapest device times) - (r - 1) * copy_ns``; 0 for ``m = 0``.
    """
    missing, residents = missing_cpu_ns.shape[0], resident_cpu_ns.shape[0]
    host = cheapest_sums(missing_cpu_ns)
    device = cheapest_sums(missing_gpu_ns)
    resident_host = cheapest_sums(resident_cpu_ns)
    resident_device = cheapest_sums(resident_gpu_ns)
    tail_ns[0] = 0
    for copies in range(missing + 1):
        if copies > 0:
            tail_ns[copies] = device[copies] - (copies - 1) * copy_ns
            if copies > 1:
                tail_ns[copies] = max(tail_ns[copies], tail_ns[copies - 1])
        table_ns[copies] = IMPOSSIBLE_NS
        if not host_computes:
            if copies == missing:
                table_ns[copies] = dense_ns + device[copies] + resident_device[residents]
            continue
        for demoted in range(residents + 1):
            work = max(
                host[missing - copies] + resident_host[demoted],
                device[copies] + resident_device[residents - demoted],
            )
            table_ns[copies] = min(table_ns[copies], dense_ns + work)
