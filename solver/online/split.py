"""The split of one layer with true counts: what every number of on-demand copies would cost."""

from __future__ import annotations

import numba
import numpy as np

from prescope.formulation.demand import IntArray

_NOTHING = -(1 << 60)


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
    every: bool,
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Earliest end of a layer for each number ``m`` of on-demand copies; times count from the gate.

    The device first runs its ready experts, then the late ones in order of arrival, then the copied ones;
    the host runs the rest. For every ``m`` the number of late copies waited for (the others are
    dropped) and the number of ready experts handed to the host are chosen to end earliest, the fewest of
    either where several do.

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
    every
        Whether also such numbers are wanted whose last copy would start when the layer could have ended
        with one copy less.

    Returns
    -------
    end_ns, waited, demoted, link_ns
        For ``m = 0 .. M``: end of the layer, late copies waited for, ready experts on the host, and when the
        link is free again.
    """
    ready, late, missing = ready_gpu_ns.shape[0], late_gpu_ns.shape[0], missing_gpu_ns.shape[0]
    most = missing if slots > 0 else 0
    end_ns = np.empty(most + 1, dtype=np.int64)
    waited = np.zeros(most + 1, dtype=np.int64)
    demoted = np.zeros(most + 1, dtype=np.int64)
    link_ns = np.zeros(most + 1, dtype=np.int64)
    # With the first j ready experts handed over: what the device has left of them, what the host has got.
    kept_ns = np.zeros(ready + 1, dtype=np.int64)
    given_ns = np.zeros(ready + 1, dtype=np.int64)
    for rank in range(ready):
        kept_ns[0] += ready_gpu_ns[rank]
    for rank in range(ready):
        kept_ns[rank + 1] = kept_ns[rank] - ready_gpu_ns[rank]
        given_ns[rank + 1] = given_ns[rank] + ready_cpu_ns[rank]
    hand_over = ready if host_computes else 0
    first_wait = 0 if host_computes else late
    slot_free = np.zeros(max(slots, 1), dtype=np.int64)
    # For each number of late copies waited for: the device's work after the ready experts, its end were
    # there no ready ones, and the host's work.
    work_ns = np.zeros(late + 1, dtype=np.int64)
    chain_ns = np.full(late + 1, _NOTHING, dtype=np.int64)
    host_ns = np.zeros(late + 1, dtype=np.int64)
    for rank in range(missing):
        host_ns[late] += missing_cpu_ns[rank]
    for wait in range(1, late + 1):
        work_ns[wait] = work_ns[wait - 1] + late_gpu_ns[wait - 1]
        chain_ns[wait] = max(chain_ns[wait - 1], late_arrival_ns[wait - 1]) + late_gpu_ns[wait - 1]
    for wait in range(late - 1, -1, -1):
        host_ns[wait] = host_ns[wait + 1] + late_cpu_ns[wait]
    # The same for the copy whose slot the m-th takes over, and up to how much work of ready experts no copy
    # has to wait for its slot.
    former_work_ns, former_chain_ns = work_ns.copy(), chain_ns.copy()
    smooth_ns = np.full(late + 1, 1 << 60, dtype=np.int64)
    copied = 0
    for m in range(most + 1):
        if m > 0:
            if not every and link_free_ns + (m - 1) * copy_ns >= end_ns[m - 1]:
                break
            copied = m
            arrival = link_free_ns + m * copy_ns
            for wait in range(first_wait, late + 1):
                work_ns[wait] += missing_gpu_ns[m - 1]
                chain_ns[wait] = max(chain_ns[wait], arrival) + missing_gpu_ns[m - 1]
                host_ns[wait] -= missing_cpu_ns[m - 1]
                if m > slots:
                    former = m - slots
                    former_work_ns[wait] += missing_gpu_ns[former - 1]
                    former_chain_ns[wait] = (
                        max(former_chain_ns[wait], link_free_ns + former * copy_ns)
                        + missing_gpu_ns[former - 1]
                    )
                    room_ns = arrival - copy_ns
                    smooth_ns[wait] = min(smooth_ns[wait], room_ns - former_work_ns[wait])
                    if former_chain_ns[wait] > room_ns:
                        smooth_ns[wait] = _NOTHING
        best = -1
        for wait in range(first_wait, late + 1):
            left = late - wait + missing - m
            # The device's end falls and the host's rises with j: they cross at the first ``high`` where
            # the device is not behind.
            low, high = 0, hand_over
            while low < high:
                middle = (low + high) // 2
                device, _ = _device(
                    wait,
                    m,
                    kept_ns[middle],
                    work_ns[wait],
                    chain_ns[wait],
                    smooth_ns[wait],
                    late_arrival_ns,
                    late_gpu_ns,
                    missing_gpu_ns,
                    copy_ns,
                    link_free_ns,
                    slot_free,
                )
                host = host_free_ns + host_ns[wait] + given_ns[middle] if left + middle > 0 else 0
                if device <= host:
                    high = middle
                else:
                    low = middle + 1
            for demote in range(max(0, high - 1), high + 1):
                device, link = _device(
                    wait,
                    m,
                    kept_ns[demote],
                    work_ns[wait],
                    chain_ns[wait],
                    smooth_ns[wait],
                    late_arrival_ns,
                    late_gpu_ns,
                    missing_gpu_ns,
                    copy_ns,
                    link_free_ns,
                    slot_free,
                )
                host = host_free_ns + host_ns[wait] + given_ns[demote] if left + demote > 0 else 0
                end = max(device, host)
                if best >= 0 and end >= end_ns[m]:
                    continue
                best = wait
                end_ns[m] = end
                waited[m] = wait
                demoted[m] = demote
                link_ns[m] = link
        # The device may end as early with fewer handed over, which leaves the host less.
        wait, low, high = waited[m], 0, demoted[m]
        while low < high:
            middle = (low + high) // 2
            device, link = _device(
                wait,
                m,
                kept_ns[middle],
                work_ns[wait],
                chain_ns[wait],
                smooth_ns[wait],
                late_arrival_ns,
                late_gpu_ns,
                missing_gpu_ns,
                copy_ns,
                link_free_ns,
                slot_free,
            )
            if device <= end_ns[m]:
                high = middle
                link_ns[m] = link
            else:
                low = middle + 1
        demoted[m] = high
    return end_ns[: copied + 1], waited[: copied + 1], demoted[: copied + 1], link_ns[: copied + 1]


@numba.njit(cache=True)
def _device(
    wait: int,
    copies: int,
    kept_ns: int,
    work_ns: int,
    chain_ns: int,
    smooth_ns: int,
    late_arrival_ns: IntArray,
    late_gpu_ns: IntArray,
    missing_gpu_ns: IntArray,
    copy_ns: int,
    link_free_ns: int,
    slot_free: IntArray,
) -> tuple[int, int]:
    """End of the device's work and of the copies, with ``kept_ns`` of ready experts first."""
    slots = slot_free.shape[0]
    if copies <= slots or kept_ns <= smooth_ns:
        return max(kept_ns + work_ns, chain_ns, kept_ns), link_free_ns + copies * copy_ns
    device = kept_ns
    for rank in range(wait):
        device = max(device, late_arrival_ns[rank]) + late_gpu_ns[rank]
    link = link_free_ns
    for rank in range(copies):
        slot = rank % slots
        if rank >= slots:
            link = max(link, slot_free[slot])
        link += copy_ns
        device = max(device, link) + missing_gpu_ns[rank]
        slot_free[slot] = device
    return device, link
