"""Local search on the exact simulation: move experts between host and device while the makespan falls.

Neighbourhoods, each entered when the ones before it are exhausted:

1. in one layer, copy one expert more or fewer (the heaviest left out, the lightest taken) and demote one
   resident more or fewer, alone or together;
2. shift one copy between two layers at most `_REACH` apart;
3. move any one expert;
4. exchange any two experts of a layer that sit on different sides.

A trial re-simulates from its first changed layer and stops as soon as its state is nowhere better than the
incumbent's. The effort is counted in experts simulated, so the result does not depend on the clock.
"""

from __future__ import annotations

import numba
import numpy as np

from prescope.formulation.demand import IntArray
from prescope.formulation.workload import Workload
from prescope.solver.simulate import Choice, Track, advance, new_track, simulate

_REACH = 4


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _flip(choice: Choice, flips: IntArray, count: int) -> None:
    """Toggle experts: rank of a missing one, or ``-1 - rank`` of a resident."""
    for index in range(count):
        rank = flips[index]
        if rank >= 0:
            choice.take[rank] = not choice.take[rank]
        else:
            choice.keep[-1 - rank] = not choice.keep[-1 - rank]


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _try(
    work: Workload,
    choice: Choice,
    flips: IntArray,
    count: int,
    layer: int,
    best: Track,
    trial: Track,
    spent: IntArray,
) -> bool:
    """Apply a move whose first layer is ``layer``; keep it if the makespan falls, undo it otherwise."""
    layers = work.dense_ns.shape[0]
    if work.slots == 0 and max(flips[0], flips[count - 1]) >= 0:
        return False
    _flip(choice, flips, count)
    for before in range(max(0, layer - work.lookahead), layer + 1):
        trial.starts_ns[before] = best.starts_ns[before]
    trial.links_ns[layer] = best.links_ns[layer]
    first = best.copies[layer]
    trial.copies[layer] = first
    for copy in range(max(0, first - work.slots), first):
        trial.free_ns[copy] = best.free_ns[copy]
    no_order = np.empty(0, dtype=np.int64)
    last = layer
    for index in range(count):
        rank = flips[index]
        offsets = work.missing_offsets if rank >= 0 else work.resident_offsets
        place = rank if rank >= 0 else -1 - rank
        while offsets[last + 1] <= place:
            last += 1
    better = False
    for now in range(layer, layers):
        end = advance(work, choice, now, work.lookahead, trial, no_order)
        spent[0] += work.missing_offsets[now + 1] - work.missing_offsets[now]
        spent[0] += work.resident_offsets[now + 1] - work.resident_offsets[now] + 4
        better = end < best.starts_ns[now + 1]
        if now >= last and not better and trial.links_ns[now + 1] >= best.links_ns[now + 1]:
            break
    if not better or trial.starts_ns[layers] >= best.starts_ns[layers]:
        _flip(choice, flips, count)
        return False
    simulate(work, choice, work.lookahead, best)
    return True


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _edges(work: Workload, choice: Choice, layer: int) -> tuple[int, int, int, int]:
    """Next to copy, next to leave out, next to demote, next to restore; as flips, with a flag -2^40 for none."""
    none = -(1 << 40)
    add = drop = demote = restore = none
    for rank in range(work.missing_offsets[layer], work.missing_offsets[layer + 1]):
        if choice.take[rank]:
            drop = rank
        elif add == none:
            add = rank
    for rank in range(work.resident_offsets[layer], work.resident_offsets[layer + 1]):
        if not choice.keep[rank]:
            restore = -1 - rank
        elif demote == none:
            demote = -1 - rank
    return add, drop, demote, restore


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _step_layer(
    work: Workload, choice: Choice, layer: int, best: Track, trial: Track, spent: IntArray
) -> bool:
    """Neighbourhood 1 at one layer."""
    none = -(1 << 40)
    flips = np.empty(2, dtype=np.int64)
    improved = False
    for first in range(3):
        for second in range(3):
            add, drop, demote, restore = _edges(work, choice, layer)
            count = 0
            if first > 0:
                flips[0] = add if first == 1 else drop
                count = 1
            if second > 0:
                flips[count] = demote if second == 1 else restore
                count += 1
            if count == 0 or flips[0] == none or flips[count - 1] == none:
                continue
            if _try(work, choice, flips, count, layer, best, trial, spent):
                improved = True
    return improved


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _shift_layer(
    work: Workload, choice: Choice, layer: int, best: Track, trial: Track, spent: IntArray
) -> bool:
    """Neighbourhood 2 with the earlier layer given."""
    none = -(1 << 40)
    flips = np.empty(2, dtype=np.int64)
    improved = False
    for other in range(layer + 1, min(work.dense_ns.shape[0], layer + 1 + _REACH)):
        for way in range(2):
            add, drop, _, _ = _edges(work, choice, layer)
            add_other, drop_other, _, _ = _edges(work, choice, other)
            flips[0] = add if way == 0 else drop
            flips[1] = drop_other if way == 0 else add_other
            if flips[0] == none or flips[1] == none:
                continue
            if _try(work, choice, flips, 2, layer, best, trial, spent):
                improved = True
    return improved


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _toggle_layer(
    work: Workload, choice: Choice, layer: int, best: Track, trial: Track, spent: IntArray, budget: int
) -> bool:
    """Neighbourhood 3 at one layer."""
    flips = np.empty(1, dtype=np.int64)
    improved = False
    for rank in range(work.missing_offsets[layer], work.missing_offsets[layer + 1]):
        flips[0] = rank
        if spent[0] < budget and _try(work, choice, flips, 1, layer, best, trial, spent):
            improved = True
    for rank in range(work.resident_offsets[layer], work.resident_offsets[layer + 1]):
        flips[0] = -1 - rank
        if spent[0] < budget and _try(work, choice, flips, 1, layer, best, trial, spent):
            improved = True
    return improved


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _swap_layer(
    work: Workload, choice: Choice, layer: int, best: Track, trial: Track, spent: IntArray, budget: int
) -> bool:
    """Neighbourhood 4 at one layer."""
    low, high = work.missing_offsets[layer], work.missing_offsets[layer + 1]
    left, right = work.resident_offsets[layer], work.resident_offsets[layer + 1]
    both = high - low + right - left
    flips = np.empty(2, dtype=np.int64)
    improved = False
    for one in range(both):
        for two in range(one + 1, both):
            if spent[0] >= budget:
                return improved
            flips[0] = low + one if one < high - low else -1 - (left + one - high + low)
            flips[1] = low + two if two < high - low else -1 - (left + two - high + low)
            on_one = choice.take[flips[0]] if flips[0] >= 0 else choice.keep[-1 - flips[0]]
            on_two = choice.take[flips[1]] if flips[1] >= 0 else choice.keep[-1 - flips[1]]
            if on_one != on_two and _try(work, choice, flips, 2, layer, best, trial, spent):
                improved = True
    return improved


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def descend(work: Workload, choice: Choice, budget: int) -> tuple[int, int]:
    """Improve a choice in place.

    Parameters
    ----------
    work
        The experts; ``host_computes`` must hold and ``slots`` may be 0 (then only residents move).
    choice
        A feasible choice; improved in place.
    budget
        Largest effort, in experts simulated (about 2 ns each).

    Returns
    -------
    makespan_ns, spent
        Of the improved choice, and the effort used.
    """
    best = new_track(work)
    trial = new_track(work)
    simulate(work, choice, work.lookahead, best)
    layers = work.dense_ns.shape[0]
    spent = np.zeros(1, dtype=np.int64)
    if not work.host_computes:
        return best.starts_ns[layers], 0
    level = 1
    while level <= 4 and spent[0] < budget:
        improved = False
        for layer in range(layers):
            if spent[0] >= budget:
                break
            if level == 1:
                changed = _step_layer(work, choice, layer, best, trial, spent)
            elif level == 2:
                changed = _shift_layer(work, choice, layer, best, trial, spent)
            elif level == 3:
                changed = _toggle_layer(work, choice, layer, best, trial, spent, budget)
            else:
                changed = _swap_layer(work, choice, layer, best, trial, spent, budget)
            improved = improved or changed
        level = 1 if improved and level > 1 else (level if improved else level + 1)
    return best.starts_ns[layers], spent[0]
