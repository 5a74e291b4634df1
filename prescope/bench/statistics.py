"""The numbers a benchmark is told in (docs/benchmarking.md defines them)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

SHIFT_NS = 1_000_000


def mean(values: Sequence[float]) -> float | None:
    """Arithmetic mean; ``None`` of nothing."""
    return float(np.mean(values)) if len(values) else None


def percentile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that at least ``share`` percent of the values do not exceed; ``None`` of nothing."""
    if not len(values):
        return None
    return float(np.percentile(np.asarray(values, dtype=np.float64), share, method="inverted_cdf"))


def shifted_geometric_mean(values_ns: Sequence[float], shift_ns: float = SHIFT_NS) -> float | None:
    """Geometric mean of ``value + shift``, less the shift, so that tiny values do not dominate."""
    if not len(values_ns):
        return None
    values = np.asarray(values_ns, dtype=np.float64)
    return float(np.exp(np.mean(np.log(values + shift_ns))) - shift_ns)


def performance_profile(ratios: Sequence[float], factors: Sequence[float]) -> list[float]:
    """Share of the instances on which a method is within each factor of the best (Dolan and More, 2002).

    Parameters
    ----------
    ratios
        Per instance, the method's makespan divided by the shortest of all methods; infinity where it failed.
    factors
        At least 1.
    """
    found = np.sort(np.asarray(ratios, dtype=np.float64))
    if not len(found):
        return [0.0 for _ in factors]
    return [float(np.searchsorted(found, factor, side="right")) / len(found) for factor in factors]


def primal_integral_ns(incumbents: Sequence[tuple[int, int]], reference_ns: int, horizon_ns: int) -> float:
    """Area under the primal gap from 0 to a horizon (Berthold, 2013): 0 at best, ``horizon_ns`` at worst.

    Parameters
    ----------
    incumbents
        ``(time_ns, makespan_ns)`` of each better plan, in order.
    reference_ns
        Makespan of the best plan known.
    horizon_ns
        Until when; the same for all that are compared.

    Notes
    -----
    The gap is 1 before the first plan and ``(makespan - reference) / makespan`` after it.
    """
    area, last_ns, gap = 0.0, 0, 1.0
    for time_ns, makespan_ns in incumbents:
        now = min(time_ns, horizon_ns)
        area += gap * (now - last_ns)
        last_ns = now
        gap = max(makespan_ns - reference_ns, 0) / max(makespan_ns, 1)
    return area + gap * (horizon_ns - last_ns)
