"""The split of one layer with true counts: what every number of on-demand copies would cost."""

from __future__ import annotations

import numba
import numpy as np

from prescope.formulation.demand import IntArray

_NOTHING = -(1 << 60)
_EVER = 1 << 60


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
    spare_ns: int = _EVER,
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
    spare_ns
        Copies that land as much after the earliest end so far are not looked at, unless ``every``.

    Returns
    -------
    end_ns, waited, demoted, link_ns
        For ``m = 0 .. M``: end of the layer, late copies waited for, ready experts on the host, and when the
        link is free again.
    """
    ready, late, missing = ready_gpu_ns.shape[0], late_gpu_ns.shape[0], missing_gpu_ns.shape[0]
    most = missing if slots > 0 else 0
    answer = np.empty((4, most + 1), dtype=np.int64)
    end_ns, waited, demoted, link_ns = answer[0], answer[1], answer[2], answer[3]
    # With the first j ready experts handed over: what the device has left of them, what the host has got.
    handed = np.empty((2, ready + 1), dtype=np.int64)
    kept_ns, given_ns = handed[0], handed[1]
    total_ns = 0
    for rank in range(ready):
        total_ns += ready_gpu_ns[rank]
    kept_ns[0] = total_ns
    given_ns[0] = 0
    for rank in range(ready):
        kept_ns[rank + 1] = kept_ns[rank] - ready_gpu_ns[rank]
        given_ns[rank + 1] = given_ns[rank] + ready_cpu_ns[rank]
    hand_over = ready if host_computes else 0
    first_wait = 0 if host_computes else late
    # For each number of late copies waited for: the device's work after the ready experts, its end were
    # there no ready ones, and the host's work.
    by_wait = np.empty((7, late + 1), dtype=np.int64)
    work_ns, chain_ns, host_ns = by_wait[0], by_wait[1], by_wait[2]
    # The same for the copy whose slot the m-th takes over, and up to how much work of ready experts no copy
    # has to wait for its slot.
    former_work_ns, former_chain_ns, smooth_ns = by_wait[3], by_wait[4], by_wait[5]
    # The fewest handed over with which the device is not behind the host; it only grows with m.
    crossing = by_wait[6]
    work_ns[0], chain_ns[0] = 0, _NOTHING
    for wait in range(1, late + 1):
        work_ns[wait] = work_ns[wait - 1] + late_gpu_ns[wait - 1]
        chain_ns[wait] = max(chain_ns[wait - 1], late_arrival_ns[wait - 1]) + late_gpu_ns[wait - 1]
    host_ns[late] = 0
    for rank in range(missing):
        host_ns[late] += missing_cpu_ns[rank]
    for wait in range(late - 1, -1, -1):
        host_ns[wait] = host_ns[wait + 1] + late_cpu_ns[wait]
    for wait in range(late + 1):
        former_work_ns[wait], former_chain_ns[wait] = work_ns[wait], chain_ns[wait]
        smooth_ns[wait] = _EVER
        crossing[wait] = 0
    turns = np.empty(max(slots, 1), dtype=np.int64)
    copied = 0
    least_end = _EVER
    for m in range(most + 1):
        arrival = link_free_ns + m * copy_ns
        if m > 0:
            if not every and (arrival - copy_ns >= end_ns[m - 1] or arrival - spare_ns >= least_end):
                break
            copied = m
            gpu, cpu = missing_gpu_ns[m - 1], missing_cpu_ns[m - 1]
            for wait in range(first_wait, late + 1):
                work_ns[wait] += gpu
                chain_ns[wait] = max(chain_ns[wait], arrival) + gpu
                host_ns[wait] -= cpu
            if m > slots:
                former_gpu = missing_gpu_ns[m - slots - 1]
                landed, room_ns = link_free_ns + (m - slots) * copy_ns, arrival - copy_ns
                for wait in range(first_wait, late + 1):
                    former_work_ns[wait] += former_gpu
                    former_chain_ns[wait] = max(former_chain_ns[wait], landed) + former_gpu
                    smooth_ns[wait] = min(smooth_ns[wait], room_ns - former_work_ns[wait])
                    if former_chain_ns[wait] > room_ns:
                        smooth_ns[wait] = _NOTHING
        best_end, best_wait, best_demote = _EVER, first_wait, 0
        for wait in range(first_wait, late + 1):
            work, chain, smooth = work_ns[wait], chain_ns[wait], smooth_ns[wait]
            if chain >= best_end:
                # Whoever waits for more ends no sooner.
                break
            left = late - wait + missing - m
            base_ns = host_free_ns + host_ns[wait]
            if left > 0 and base_ns >= best_end:
                continue
            # The device's end falls and the host's rises with the number handed over: the layer ends earliest
            # where they cross, or one before.
            demote = max(crossing[wait] - 1, 0)
            while True:
                kept = kept_ns[demote]
                if kept <= smooth:
                    device = max(kept + work, chain)
                else:
                    device, _ = _in_turn(
                        wait, m, kept, late_arrival_ns, late_gpu_ns, missing_gpu_ns, copy_ns, link_free_ns,
                        turns,
                    )  # fmt: skip
                host = base_ns + given_ns[demote] if left + demote > 0 else 0
                end = max(device, host)
                if end < best_end:
                    best_end, best_wait, best_demote = end, wait, demote
                if device <= host or demote >= hand_over:
                    break
                demote += 1
            crossing[wait] = demote
        # The device may end as early with fewer handed over, which leaves the host less.
        work, chain, smooth = work_ns[best_wait], chain_ns[best_wait], smooth_ns[best_wait]
        demote = best_demote
        link = arrival
        while True:
            kept = kept_ns[demote]
            if kept <= smooth:
                device, link_here = max(kept + work, chain), arrival
            else:
                device, link_here = _in_turn(
                    best_wait, m, kept, late_arrival_ns, late_gpu_ns, missing_gpu_ns, copy_ns, link_free_ns,
                    turns,
                )  # fmt: skip
            if device > best_end:
                break
            best_demote, link = demote, link_here
            if demote == 0:
                break
            demote -= 1
        end_ns[m], waited[m], demoted[m], link_ns[m] = best_end, best_wait, best_demote, link
        if link <= best_end < least_end:
            least_end = best_end
    return end_ns[: copied + 1], waited[: copied + 1], demoted[: copied + 1], link_ns[: copied + 1]


@numba.njit(cache=True)
def _in_turn(
    wait: int,
    copies: int,
    kept_ns: int,
    late_arrival_ns: IntArray,
    late_gpu_ns: IntArray,
    missing_gpu_ns: IntArray,
    copy_ns: int,
    link_free_ns: int,
    slot_free: IntArray,
) -> tuple[int, int]:
    """End of the device's work and of the copies where copies wait for the slots of earlier ones.

    ``kept_ns`` of ready experts run first; ``slot_free`` is room for one number per slot.
    """
    slots = slot_free.shape[0]
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
