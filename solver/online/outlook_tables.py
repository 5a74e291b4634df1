"""The table of a coming layer from expected costs: how long it will take, by the copies brought ahead."""

from __future__ import annotations

from math import erf, exp, pi, sqrt

import numba
import numpy as np
import numpy.typing as npt

from prescope.formulation.demand import FloatArray, IntArray

NEGLIGIBLE_NS = 1.0
"""Expected host time below which a copy would only push out others."""

_TURNS = 8
"""Most halvings in search of the bar."""


@numba.njit(cache=True, error_model="numpy")
def expected_maximum(mean_a: float, mean_b: float, variance: float) -> float:
    """Mean of the larger of two normal variables whose difference has ``variance`` (Clark, 1961)."""
    gap = mean_a - mean_b
    # Beyond three deviations the difference is below a thousandth of one.
    if gap * gap >= 9.0 * variance:
        return max(mean_a, mean_b)
    spread = sqrt(variance)
    alpha = gap / spread
    share = 0.5 * (1.0 + erf(alpha / sqrt(2.0)))
    density = exp(-0.5 * alpha * alpha) / sqrt(2.0 * pi)
    return mean_a * share + mean_b * (1.0 - share) + spread * density


@numba.njit(cache=True, error_model="numpy")
def _heaviest(
    cpu_ns: FloatArray,
    held: npt.NDArray[np.bool_],
    negligible_ns: float,
    mean_ns: float,
    wanted: int,
    order: IntArray,
    keys: FloatArray,
) -> None:
    """Write the ``wanted`` heaviest candidates, heaviest first and equal ones by id; there are as many.

    What an expert takes is not foreseen by the processor, so that every branch on it costs: first a bar is
    sought, without branches, that few more than are wanted exceed; only those are sorted. Around the mean of
    all candidates the bar is found soonest. ``keys`` is room.
    """
    found = 0
    for expert in range(cpu_ns.shape[0]):
        key = cpu_ns[expert]
        keys[found], order[found] = key, expert
        found += 1 if (key > negligible_ns) & (not held[expert]) else 0
    low, bar, high, above = negligible_ns, mean_ns, 2.0 * mean_ns, found
    for _ in range(_TURNS):
        if above <= wanted + (wanted >> 2) + 2:
            break
        count = 0
        for rank in range(found):
            count += 1 if keys[rank] > bar else 0
        if count >= wanted:
            low, above = bar, count
        else:
            high = bar
        bar = 0.5 * (low + high)
    kept = 0
    for rank in range(found):
        key = keys[rank]
        keys[kept], order[kept] = key, order[rank]
        kept += 1 if key > low else 0
    for rank in range(1, kept):
        key, expert, place = keys[rank], order[rank], rank
        while place > 0 and keys[place - 1] < key:
            keys[place], order[place] = keys[place - 1], order[place - 1]
            place -= 1
        keys[place], order[place] = key, expert


@numba.njit(cache=True, error_model="numpy")
def fill_expected_table(
    cpu_ns: FloatArray,
    gpu_ns: FloatArray,
    probability: FloatArray,
    held: npt.NDArray[np.bool_],
    dense_ns: int,
    copy_ns: int,
    slots: int,
    spread: float,
    negligible_ns: float,
    order: IntArray,
    table_ns: IntArray,
    last_ns: IntArray,
) -> int:
    """Write a coming layer's table; returns the largest number of copies worth considering.

    Parameters
    ----------
    cpu_ns, gpu_ns, probability
        Expected time of each expert on either side and its probability of being needed, float64 ``[E]``.
    held
        Whether its weights will be there.
    dense_ns, copy_ns
        The layer before its gate, and one copy.
    slots
        Slots of the link's lead.
    spread
        Share of the experts' independent variance that the layer's times have.
    negligible_ns
        Experts of less expected host time are no candidates.
    order
        Receives the candidates, heaviest expected host time first; what is behind them means nothing.
    table_ns, last_ns
        Receive the table as `prescope.formulation.reduction.fill_layer_table` does.
    """
    experts = cpu_ns.shape[0]
    host = device = brought = variance = 0.0
    candidates = 0
    for expert in range(experts):
        chance = probability[expert]
        if held[expert]:
            device += gpu_ns[expert]
            if chance > 0.0:
                variance += gpu_ns[expert] * gpu_ns[expert] * (1.0 - chance) / chance
        else:
            host += cpu_ns[expert]
            if chance > 0.0:
                variance += cpu_ns[expert] * cpu_ns[expert] * (1.0 - chance) / chance
            if cpu_ns[expert] > negligible_ns:
                candidates += 1
                brought += gpu_ns[expert]
    # More than the slots hold and the link brings while the layer runs cannot come; every copy shortens the
    # host's work by the mean at least, the heaviest coming first.
    most = 0
    if candidates > 0:
        by_host = (slots * copy_ns + host) / (copy_ns + host / candidates)
        by_device = slots + (device + brought) / copy_ns
        most = min(candidates, int(max(by_host, by_device)) + 1)
    if most > 0:
        # The table's room serves for what is sorted.
        _heaviest(cpu_ns, held, negligible_ns, host / candidates, most, order, table_ns.view(np.float64))
    for copies in range(most + 1):
        last_ns[copies] = 0
        if copies > 0:
            expert = order[copies - 1]
            chance = probability[expert]
            host -= cpu_ns[expert]
            device += gpu_ns[expert]
            last_ns[copies] = int(gpu_ns[expert])
            if chance > 0.0:
                odds = (1.0 - chance) / chance
                variance -= (cpu_ns[expert] * cpu_ns[expert] - gpu_ns[expert] * gpu_ns[expert]) * odds
        table_ns[copies] = dense_ns + int(expected_maximum(host, device, spread * variance))
    return most
