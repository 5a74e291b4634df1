"""The split of one layer with true counts: what every number of on-demand copies would cost."""

from __future__ import annotations

import numba
import numpy as np

from prescope.formulation.demand import IntArray


@numba.njit(cache=True)
def split_costs(
    ready_gpu_ns: IntArray,
    ready_cpu_ns: IntArray,
    late_arrival_ns: IntArray,
    late_gpu_ns: IntArray,
    late_cpu_ns: IntArray,
    missing_gpu_ns: IntArray,
    missing_cpu_ns: IntArray,
    copy_ns: int,
    link_free_ns: int,
    host_free_ns: int,
    slots: int,
    host_computes: bool,
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Earliest end of a layer for each number ``m`` of on-demand copies; times count from the gate.

    The device first runs its ready experts, then the late ones in order of arrival, then the copied ones;
    the host runs the rest. For every ``m`` the number of late copies waited for (the others are
    dropped) and the number of ready experts handed to the host are chosen to end earliest.

    Parameters
    ----------
    ready_gpu_ns, ready_cpu_ns
        Experts on the device, lightest on the host first.
    late_arrival_ns, late_gpu_ns, late_cpu_ns
        Experts whose copy is under way, earliest first.
    missing_gpu_ns, missing_cpu_ns
        Experts without a copy, heaviest on the host first; the first ``m`` are copied.
    copy_ns, link_free_ns, host_free_ns
        Time of a copy, when the link can start one, and when the host can start its first expert.
    slots
        Slots the copies may use, at least 1 for ``m >= 1``; more copies than slots re-use them in turn.
    host_computes
        Where false, every late copy is waited for and no ready expert is handed over.

    Returns
    -------
    end_ns, waited, demoted, link_ns
        For ``m = 0 .. M``: end of the layer, late copies waited for, ready experts on the host, and when the
        link is free again.
    """
    ready, late, missing = ready_gpu_ns.shape[0], late_gpu_ns.shape[0], missing_gpu_ns.shape[0]
    most = missing if slots > 0 else 0
    end_ns = np.full(most + 1, np.iinfo(np.int64).max)
    waited = np.zeros(most + 1, dtype=np.int64)
    demoted = np.zeros(most + 1, dtype=np.int64)
    link_ns = np.zeros(most + 1, dtype=np.int64)
    slot_free = np.zeros(max(slots, 1), dtype=np.int64)
    missing_total = missing_cpu_ns.sum()
    for wait in range(0 if host_computes else late, late + 1):
        late_host = late_cpu_ns[wait:].sum()
        for demote in range(ready + 1 if host_computes else 1):
            host = missing_total + late_host + ready_cpu_ns[:demote].sum()
            gpu = ready_gpu_ns[demote:].sum()
            for index in range(wait):
                gpu = max(gpu, late_arrival_ns[index]) + late_gpu_ns[index]
            slot_free[:] = 0
            link = link_free_ns
            for m in range(most + 1):
                if m > 0:
                    slot = (m - 1) % slot_free.shape[0]
                    link = max(link, slot_free[slot]) + copy_ns
                    gpu = max(gpu, link) + missing_gpu_ns[m - 1]
                    slot_free[slot] = gpu
                    host -= missing_cpu_ns[m - 1]
                end = gpu
                if demote + late - wait + missing - m > 0:
                    end = max(end, host_free_ns + host)
                if end < end_ns[m]:
                    end_ns[m] = end
                    waited[m] = wait
                    demoted[m] = demote
                    link_ns[m] = link
    return end_ns, waited, demoted, link_ns
