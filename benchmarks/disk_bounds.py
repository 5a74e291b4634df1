"""What no system can beat: bytes that must come from the disk, and work that must be done."""

from __future__ import annotations

from typing import Any

from benchmarks.disk_routing import Array, belady_reads


def fewest_reads(counts: list[Array], *, rows: int, window: slice) -> int:
    """Reads of the timed steps by the clairvoyant cache with bypass.

    Parameters
    ----------
    counts
        Tokens of each expert of every step, warming up included: the cache starts empty before it.
    rows
        Experts that fit the budget.
    window
        The timed steps.
    """
    return sum(belady_reads(counts, rows)[window])


def compute_bound_ns(counts: list[Array], *, window: slice, batch: int, costs: Any) -> int:
    """Dense work and experts of the timed steps, by measured costs, with all weights in memory."""
    total = 0
    for step in counts[window]:
        for layer, row in enumerate(step):
            total += costs.dense_ns(layer, batch)
            total += sum(costs.gpu_ns(layer, int(count)) for count in row[row > 0])
    return total
