"""A layer's relaxed table: what no plan can beat, whatever experts it copies or demotes."""

from __future__ import annotations

import numba
import numpy as np

from prescope.formulation.demand import IntArray
from prescope.formulation.reduction import IMPOSSIBLE_NS


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _cheapest(times_ns: IntArray) -> IntArray:
    """Sum of the ``k`` smallest, for every ``k``; int64 ``[n + 1]``."""
    ordered = np.sort(times_ns)
    sums = np.zeros(times_ns.shape[0] + 1, dtype=np.int64)
    for rank in range(times_ns.shape[0]):
        sums[rank + 1] = sums[rank] + ordered[rank]
    return sums


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def relaxed_table(
    missing_cpu_ns: IntArray,
    missing_gpu_ns: IntArray,
    resident_cpu_ns: IntArray,
    resident_gpu_ns: IntArray,
    dense_ns: int,
    copy_ns: int,
    host_computes: bool,
) -> tuple[IntArray, IntArray]:
    """Lower bounds on a layer that copies ``m`` experts, for ``m = 0..M``.

    The work left to the host and to the device is bounded independently: the cheapest experts that could
    be there, with any number of demoted residents.

    Returns
    -------
    table_ns
        The layer lasts at least this long; int64 ``[M + 1]``.
    tail_ns
        It ends at least this long after the last of its ``m`` copies could have landed on a link that
        never pauses: ``max_r (r cheapest device times) - (r - 1) * copy_ns``; 0 for ``m = 0``.
    """
    missing, residents = missing_cpu_ns.shape[0], resident_cpu_ns.shape[0]
    host = _cheapest(missing_cpu_ns)
    device = _cheapest(missing_gpu_ns)
    resident_host = _cheapest(resident_cpu_ns)
    resident_device = _cheapest(resident_gpu_ns)
    table_ns = np.full(missing + 1, IMPOSSIBLE_NS, dtype=np.int64)
    tail_ns = np.zeros(missing + 1, dtype=np.int64)
    for copies in range(missing + 1):
        if copies > 0:
            tail_ns[copies] = device[copies] - (copies - 1) * copy_ns
            if copies > 1:
                tail_ns[copies] = max(tail_ns[copies], tail_ns[copies - 1])
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
    return table_ns, tail_ns
