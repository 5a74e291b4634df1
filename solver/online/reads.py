"""What is worth reading ahead where the host computes nothing: every missing expert takes the link anyway.

A missing expert of the layer at hand is read at its gate, so the link never works less for having waited; it
works more for what was read in vain. In such a layer ``m`` reads ahead leave ``R(m)`` expected reads to the
gate. With ``lead`` as the time by which the link is ahead of the layer's beginning, and ``over`` what the
reads ahead last beyond the gate::

    over  = max(0, m * copy - lead - dense)
    layer = dense + E max(all computations, over + R(m) * copy + last computation,
                          over + copy + computations of the R(m))
    lead' = layer - (time of the layer at which the link has nothing more to read)

The plan is the shortest sum over the coming layers, by dynamic programming over the lead in steps of a copy.
What it wants for later layers is read now as far as that is over before the next gate: beyond it, it would
hold up that gate's own reads, and can be decided better there.
"""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

from prescope.formulation.demand import FloatArray, IntArray
from prescope.solver.online.outlook_tables import expected_maximum

BoolArray = npt.NDArray[np.bool_]

MOST = 8
"""Most reads ahead of one layer that are weighed: more than a layer's time has room for."""

_BEHIND = 4
_GRID = _BEHIND + MOST + 1


@numba.njit(cache=True, error_model="numpy")
def plan_reads(
    probability: FloatArray,
    gpu_ns: FloatArray,
    held: BoolArray,
    dense_ns: IntArray,
    copy_ns: IntArray,
    lead_ns: float,
    slots: int,
    spread: float,
    least: float,
    wish_ahead: IntArray,
    wish_expert: IntArray,
) -> int:
    """Choose the reads ahead of ``W`` coming layers; returns how many.

    Parameters
    ----------
    probability, gpu_ns
        Probability that each expert is needed and its expected time on the device, float64 ``[W, E]``.
    held
        Whether its weights are in memory or on their way, bool ``[W, E]``.
    dense_ns, copy_ns
        Time of each layer before its gate, and of one read.
    lead_ns
        How long before the end of the layer at hand the link is free; negative where it is later.
    slots
        Rows that reads ahead may fill.
    spread
        Share of the independent variance of the number of reads that a layer's expected end takes into
        account.
    least
        Experts that are less probable are no candidates.
    wish_ahead, wish_expert
        Receive the layers ahead (1 is the next) and the experts, in link order; int64 ``[W * E]`` at least.
    """
    layers, experts = probability.shape
    order = np.empty((layers, MOST), dtype=np.int64)
    counts = np.zeros(layers, dtype=np.int64)
    rest = np.zeros((layers, MOST + 1))
    left_ns = np.zeros((layers, MOST + 1))
    variance = np.zeros((layers, MOST + 1))
    device = np.zeros(layers)
    last = np.zeros(layers)
    any_read = np.zeros(layers)
    for layer in range(layers):
        _survey(
            probability[layer],
            gpu_ns[layer],
            held[layer],
            least,
            layer,
            order[layer],
            counts,
            rest[layer],
            left_ns[layer],
            variance[layer],
            device,
            last,
            any_read,
        )
    cap = min(slots, MOST)
    # Time still to come from each layer on by the lead in reads, `_BEHIND` of them being none.
    value = np.zeros((layers + 1, _GRID))
    for layer in range(layers - 1, -1, -1):
        for node in range(_GRID):
            lead = float((node - _BEHIND) * copy_ns[layer])
            value[layer, node] = _best(
                layer,
                lead,
                cap,
                spread,
                dense_ns,
                copy_ns,
                counts,
                rest,
                left_ns,
                variance,
                device,
                last,
                any_read,
                value,
            )[1]
    wishes = 0
    lead = lead_ns
    spare_ns = lead_ns + float(dense_ns[0])
    for layer in range(layers):
        chosen, _, lead = _best(
            layer,
            lead,
            cap,
            spread,
            dense_ns,
            copy_ns,
            counts,
            rest,
            left_ns,
            variance,
            device,
            last,
            any_read,
            value,
        )
        for rank in range(chosen):
            spare_ns -= float(copy_ns[layer])
            if layer > 0 and spare_ns < 0.0:
                return wishes
            wish_ahead[wishes] = layer + 1
            wish_expert[wishes] = order[layer, rank]
            wishes += 1
    return wishes


@numba.njit(cache=True, error_model="numpy")
def _survey(
    probability: FloatArray,
    gpu_ns: FloatArray,
    held: BoolArray,
    least: float,
    layer: int,
    order: IntArray,
    counts: IntArray,
    rest: FloatArray,
    left_ns: FloatArray,
    variance: FloatArray,
    device: FloatArray,
    last: FloatArray,
    any_read: FloatArray,
) -> None:
    """Candidates of a layer, most probable first, and what is left to its gate after so many of them."""
    found = 0
    missing = missing_ns = spread = 0.0
    none = 1.0
    for expert in range(probability.shape[0]):
        chance = probability[expert]
        device[layer] += gpu_ns[expert]
        if held[expert]:
            continue
        missing += chance
        missing_ns += gpu_ns[expert]
        spread += chance * (1.0 - chance)
        none *= 1.0 - min(chance, 1.0)
        if chance < least or chance <= 0.0 or (found == MOST and chance <= probability[order[MOST - 1]]):
            continue
        place = min(found, MOST - 1)
        found = min(found + 1, MOST)
        while place > 0 and probability[order[place - 1]] < chance:
            order[place] = order[place - 1]
            place -= 1
        order[place] = expert
    counts[layer] = found
    any_read[layer] = 1.0 - none
    last[layer] = missing_ns / missing if missing > 0.0 else 0.0
    for rank in range(found + 1):
        if rank:
            chance = probability[order[rank - 1]]
            missing -= chance
            missing_ns -= gpu_ns[order[rank - 1]]
            spread -= chance * (1.0 - chance)
        rest[rank] = max(0.0, missing)
        left_ns[rank] = max(0.0, missing_ns)
        variance[rank] = max(0.0, spread)


@numba.njit(cache=True, error_model="numpy")
def _best(
    layer: int,
    lead: float,
    cap: int,
    spread: float,
    dense_ns: IntArray,
    copy_ns: IntArray,
    counts: IntArray,
    rest: FloatArray,
    left_ns: FloatArray,
    variance: FloatArray,
    device: FloatArray,
    last: FloatArray,
    any_read: FloatArray,
    value: FloatArray,
) -> tuple[int, float, float]:
    """Best number of reads ahead of a layer that the link enters with a lead; the time from here on, and
    the lead with which the next layer begins.
    """
    copy = float(copy_ns[layer])
    dense = float(dense_ns[layer])
    best, best_total, best_lead = 0, np.inf, 0.0
    for number in range(min(counts[layer], cap) + 1):
        busy = number * copy - lead
        over = max(0.0, busy - dense)
        reads = rest[layer, number]
        share = min(1.0, reads)
        by_link = reads * copy + last[layer] * share
        by_device = share * copy + left_ns[layer, number]
        waits = over * any_read[layer] + max(by_link, by_device)
        length = dense + expected_maximum(
            device[layer], waits, spread * variance[layer, number] * copy * copy
        )
        free = share * max(dense, busy) + (1.0 - share) * busy + reads * copy
        after = min(length - free, cap * copy)
        total = length + _read_off(value[layer + 1], after / copy)
        if total < best_total - 0.5:
            best, best_total, best_lead = number, total, after
    return best, best_total, best_lead


@numba.njit(cache=True, error_model="numpy")
def _read_off(value: FloatArray, reads: float) -> float:
    """Value of a lead of so many reads, linear between whole ones."""
    place = min(max(reads + _BEHIND, 0.0), float(_GRID - 1))
    node = min(int(place), _GRID - 2)
    part = place - node
    return float(value[node] * (1.0 - part) + value[node + 1] * part)
