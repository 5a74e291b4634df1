"""A layer reduced to one table: its duration against the number of copied experts.

Given that a layer copies ``m`` experts, copying the ``m`` heaviest leaves the host the least work, and by
symmetry the residents handed to the host are the lightest. So expert identity disappears from planning.
"""

from __future__ import annotations

import numba
import numpy as np

from prescope.formulation.demand import IntArray

# Far above any duration, far below overflow when two of them are added.
IMPOSSIBLE_NS = 1 << 60


@numba.njit(cache=True)
def fill_layer_table(
    cpu_desc_ns: IntArray,
    gpu_desc_ns: IntArray,
    resident_cpu_ns: IntArray,
    resident_gpu_ns: IntArray,
    dense_ns: int,
    max_copies: int,
    host_computes: bool,
    table_ns: IntArray,
    last_ns: IntArray,
    demoted: IntArray,
) -> None:
    """Write the table of one layer into given rows; see `layer_table` for the arguments.

    ``table_ns``, ``last_ns`` and ``demoted`` have at least ``max_copies + 1`` entries.
    """
    missing = cpu_desc_ns.shape[0]
    residents = resident_cpu_ns.shape[0]
    cpu = 0
    for rank in range(missing):
        cpu += cpu_desc_ns[rank]
    gpu = 0
    for rank in range(residents):
        gpu += resident_gpu_ns[rank]
    # One more copy moves work from host to device, so the best number of demoted residents only grows.
    demote = 0
    for copies in range(max_copies + 1):
        last_ns[copies] = 0
        if copies > 0:
            cpu -= cpu_desc_ns[copies - 1]
            gpu += gpu_desc_ns[copies - 1]
            last_ns[copies] = gpu_desc_ns[copies - 1]
        if not host_computes:
            demoted[copies] = 0
            table_ns[copies] = dense_ns + gpu if copies == missing else IMPOSSIBLE_NS
            continue
        while demote < residents:
            now = max(cpu, gpu)
            then = max(cpu + resident_cpu_ns[demote], gpu - resident_gpu_ns[demote])
            if then >= now:
                break
            cpu += resident_cpu_ns[demote]
            gpu -= resident_gpu_ns[demote]
            demote += 1
        demoted[copies] = demote
        table_ns[copies] = dense_ns + max(cpu, gpu)


@numba.njit(cache=True)
def layer_table(
    cpu_desc_ns: IntArray,
    gpu_desc_ns: IntArray,
    resident_cpu_ns: IntArray,
    resident_gpu_ns: IntArray,
    dense_ns: int,
    max_copies: int,
    host_computes: bool = True,
) -> tuple[IntArray, IntArray, IntArray]:
    """Duration of a layer whose copies cost nothing, against their number.

    Parameters
    ----------
    cpu_desc_ns, gpu_desc_ns
        Host and device time of the missing activated experts, heaviest host time first; int64 ``[M]``.
    resident_cpu_ns, resident_gpu_ns
        The same of the activated residents, lightest host time first; int64 ``[R]``.
    dense_ns
        Time from the layer's start to its gate (0 when time is counted from the gate).
    max_copies
        Largest number of copies wanted, at most ``M``.
    host_computes
        Where false, anything but copying all ``M`` costs `IMPOSSIBLE_NS`.

    Returns
    -------
    table_ns
        ``dense + min_j max(host work, device work)`` with the ``m`` heaviest missing experts copied and
        the ``j`` lightest residents moved to the host; int64 ``[max_copies + 1]``.
    last_ns
        Device time of the ``m``-th heaviest: what remains after the last copy has landed; 0 for none.
    demoted
        The ``j`` used for each ``m``, non-decreasing.
    """
    table_ns = np.empty(max_copies + 1, dtype=np.int64)
    last_ns = np.empty(max_copies + 1, dtype=np.int64)
    demoted = np.empty(max_copies + 1, dtype=np.int64)
    fill_layer_table(
        cpu_desc_ns,
        gpu_desc_ns,
        resident_cpu_ns,
        resident_gpu_ns,
        dense_ns,
        max_copies,
        host_computes,
        table_ns,
        last_ns,
        demoted,
    )
    return table_ns, last_ns, demoted
