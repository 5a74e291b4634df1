"""HybriMoE's split of a layer: host and link take experts from the two ends of one queue."""

from __future__ import annotations

import numba
import numpy as np

from prescope.formulation.demand import FloatArray


@numba.njit(cache=True)
def _device_ns(
    ready_gpu_ns: FloatArray,
    demoted: int,
    late_arrival_ns: FloatArray,
    late_gpu_ns: FloatArray,
    waited: int,
    missing_gpu_ns: FloatArray,
    copies: int,
    copy_ns: float,
    link_free_ns: float,
    slots: int,
) -> tuple[float, float]:
    """When the device has run what is left to it, and when the link is free."""
    device = ready_gpu_ns[demoted:].sum()
    for index in range(waited):
        device = max(device, late_arrival_ns[index]) + late_gpu_ns[index]
    link = link_free_ns
    freed = np.zeros(max(slots, 1), dtype=np.float64)
    for copy in range(copies):
        link = max(link, freed[copy % freed.shape[0]]) + copy_ns
        device = max(device, link) + missing_gpu_ns[copy]
        freed[copy % freed.shape[0]] = device
    return device, link


@numba.njit(cache=True)
def two_queues(
    ready_gpu_ns: FloatArray,
    ready_cpu_ns: FloatArray,
    late_arrival_ns: FloatArray,
    late_gpu_ns: FloatArray,
    late_cpu_ns: FloatArray,
    missing_gpu_ns: FloatArray,
    missing_cpu_ns: FloatArray,
    copy_ns: float,
    link_free_ns: float,
    slots: int,
    host_computes: bool,
    host_free_ns: float,
) -> tuple[int, int, int, float, float]:
    """Split one layer greedily; times count from the gate.

    The host takes the lightest expert left, the link brings the heaviest one to the device, and whichever
    would be done with its expert first takes it. When nothing is left, an idle host takes over late experts
    (latest first) and then ready ones (lightest first) as long as it is done before the device.

    Parameters
    ----------
    ready_gpu_ns, ready_cpu_ns
        Experts on the device, lightest on the host first.
    late_arrival_ns, late_gpu_ns, late_cpu_ns
        Experts whose copy is under way, earliest first.
    missing_gpu_ns, missing_cpu_ns
        Experts without a copy, heaviest on the host first.
    copy_ns, link_free_ns
        Time of a copy, and when the link can start one.
    slots
        Slots the copies may use; 0 copies nothing.
    host_computes
        Where false, everything missing is copied and nothing is taken over.
    host_free_ns
        When the host can start.

    Returns
    -------
    copies, waited, demoted
        The heaviest ``copies`` missing experts are copied, the first ``waited`` late ones waited for, the
        ``demoted`` lightest ready ones run on the host.
    end_ns, link_ns
        End of the layer, and when the link is free again.
    """
    missing, late, ready = missing_gpu_ns.shape[0], late_gpu_ns.shape[0], ready_gpu_ns.shape[0]
    waited, demoted = late, 0
    copies = 0
    if not host_computes:
        copies = missing
    host = host_free_ns
    device, link = _device_ns(
        ready_gpu_ns, demoted, late_arrival_ns, late_gpu_ns, waited, missing_gpu_ns, copies, copy_ns,
        link_free_ns, slots,
    )  # fmt: skip
    left = missing - copies
    while left > 0:
        lightest = copies + left - 1
        on_host = host + missing_cpu_ns[lightest]
        then, then_link = device, link
        if slots > 0:
            then, then_link = _device_ns(
                ready_gpu_ns, demoted, late_arrival_ns, late_gpu_ns, waited, missing_gpu_ns, copies + 1,
                copy_ns, link_free_ns, slots,
            )  # fmt: skip
        if slots > 0 and then < on_host:
            copies += 1
            device, link = then, then_link
        else:
            host = on_host
        left -= 1
    while host_computes and (waited > 0 or demoted < ready):
        if waited > 0:
            host_then, waited_then, demoted_then = host + late_cpu_ns[waited - 1], waited - 1, demoted
        else:
            host_then, waited_then, demoted_then = host + ready_cpu_ns[demoted], waited, demoted + 1
        if host_then >= device:
            break
        host, waited, demoted = host_then, waited_then, demoted_then
        device, link = _device_ns(
            ready_gpu_ns, demoted, late_arrival_ns, late_gpu_ns, waited, missing_gpu_ns, copies, copy_ns,
            link_free_ns, slots,
        )  # fmt: skip
    if host > host_free_ns:
        return copies, waited, demoted, max(device, host), link
    return copies, waited, demoted, device, link
