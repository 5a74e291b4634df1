"""Local search on the exact simulation: move experts between host and device while the makespan falls.

Neighbourhoods, each entered when the ones before it are exhausted:

1. in one layer, copy one expert more or fewer (the heaviest left out, the lightest taken) and demote one
   resident more or fewer, alone or together;
2. shift one copy between two layers less than `_REACH` apart;
3. move any one expert;
4. copy any two neighbours of a layer's copy sequence in the other order;
5. exchange any two experts of a layer that sit on different sides.

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
_LEVELS = 5
_NONE = -(1 << 40)


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def flip(choice: Choice, flips: IntArray) -> None:
    """Send experts to their other side: rank of a missing one, or ``-1 - rank`` of a resident."""
    for index in range(flips.shape[0]):
        rank = flips[index]
        if rank >= 0:
            choice.take[rank] = not choice.take[rank]
        else:
            choice.keep[-1 - rank] = not choice.keep[-1 - rank]


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _improves(
    work: Workload, choice: Choice, first: int, last: int, best: Track, trial: Track, spent: IntArray
) -> bool:
    """Whether a choice that differs from the incumbent's in layers ``first..last`` is shorter; keeps it then."""
    layers = work.dense_ns.shape[0]
    for before in range(max(0, first - work.lookahead), first + 1):
        trial.starts_ns[before] = best.starts_ns[before]
    trial.links_ns[first] = best.links_ns[first]
    copies = best.copies[first]
    trial.copies[first] = copies
    for copy in range(max(0, copies - work.slots), copies):
        trial.free_ns[copy] = best.free_ns[copy]
    no_order = np.empty(0, dtype=np.int64)
    better = False
    for now in range(first, layers):
        end = advance(work, choice, now, work.lookahead, trial, no_order)
        spent[0] += work.missing_offsets[now + 1] - work.missing_offsets[now]
        spent[0] += work.resident_offsets[now + 1] - work.resident_offsets[now] + 4
        better = end < best.starts_ns[now + 1]
        if now >= last and not better and trial.links_ns[now + 1] >= best.links_ns[now + 1]:
            break
    if not better or trial.starts_ns[layers] >= best.starts_ns[layers]:
        return False
    simulate(work, choice, work.lookahead, best)
    return True


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _try(
    work: Workload,
    choice: Choice,
    flips: IntArray,
    first: int,
    last: int,
    best: Track,
    trial: Track,
    spent: IntArray,
) -> bool:
    """Flip; flip back unless that is an improvement."""
    if work.slots == 0 and flips.max() >= 0:
        return False
    flip(choice, flips)
    if _improves(work, choice, first, last, best, trial, spent):
        return True
    flip(choice, flips)
    return False


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _edges(work: Workload, choice: Choice, layer: int) -> tuple[int, int, int, int]:
    """Next to copy, to leave out, to demote and to restore, as flips; `_NONE` where there is none."""
    add = drop = demote = restore = _NONE
    for rank in range(work.missing_offsets[layer], work.missing_offsets[layer + 1]):
        if choice.take[rank]:
            drop = rank
        elif add == _NONE:
            add = rank
    for rank in range(work.resident_offsets[layer], work.resident_offsets[layer + 1]):
        if not choice.keep[rank]:
            restore = -1 - rank
        elif demote == _NONE:
            demote = -1 - rank
    return add, drop, demote, restore


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _step_layer(
    work: Workload, choice: Choice, layer: int, best: Track, trial: Track, spent: IntArray
) -> bool:
    """Neighbourhood 1 at one layer."""
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
            if count == 0 or flips[:count].min() == _NONE:
                continue
            if _try(work, choice, flips[:count], layer, layer, best, trial, spent):
                improved = True
    return improved


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _shift_layer(
    work: Workload, choice: Choice, layer: int, best: Track, trial: Track, spent: IntArray
) -> bool:
    """Neighbourhood 2 with the earlier layer given."""
    flips = np.empty(2, dtype=np.int64)
    improved = False
    for other in range(layer + 1, min(work.dense_ns.shape[0], layer + _REACH)):
        for way in range(2):
            add, drop, _, _ = _edges(work, choice, layer)
            add_other, drop_other, _, _ = _edges(work, choice, other)
            flips[0] = add if way == 0 else drop
            flips[1] = drop_other if way == 0 else add_other
            if flips.min() == _NONE:
                continue
            if _try(work, choice, flips, layer, other, best, trial, spent):
                improved = True
    return improved


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _toggle_layer(
    work: Workload, choice: Choice, layer: int, best: Track, trial: Track, spent: IntArray, budget: int
) -> bool:
    """Neighbourhood 3 at one layer."""
    flips = np.empty(1, dtype=np.int64)
    improved = False
    low, left = work.missing_offsets[layer], work.resident_offsets[layer]
    missing = work.missing_offsets[layer + 1] - low
    for one in range(missing + work.resident_offsets[layer + 1] - left):
        flips[0] = low + one if one < missing else -1 - (left + one - missing)
        if spent[0] < budget and _try(work, choice, flips, layer, layer, best, trial, spent):
            improved = True
    return improved


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _reorder_layer(
    work: Workload, choice: Choice, layer: int, best: Track, trial: Track, spent: IntArray, budget: int
) -> bool:
    """Neighbourhood 4 at one layer."""
    improved = False
    before = -1
    for place in range(work.missing_offsets[layer], work.missing_offsets[layer + 1]):
        if not choice.take[choice.sequence[place]]:
            continue
        if before >= 0 and spent[0] < budget:
            one, two = choice.sequence[before], choice.sequence[place]
            choice.sequence[before], choice.sequence[place] = two, one
            if _improves(work, choice, layer, layer, best, trial, spent):
                improved = True
            else:
                choice.sequence[before], choice.sequence[place] = one, two
        before = place
    return improved


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _swap_layer(
    work: Workload, choice: Choice, layer: int, best: Track, trial: Track, spent: IntArray, budget: int
) -> bool:
    """Neighbourhood 5 at one layer."""
    low, left = work.missing_offsets[layer], work.resident_offsets[layer]
    missing = work.missing_offsets[layer + 1] - low
    both = missing + work.resident_offsets[layer + 1] - left
    flips = np.empty(2, dtype=np.int64)
    improved = False
    for one in range(both):
        for two in range(one + 1, both):
            if spent[0] >= budget:
                return improved
            flips[0] = low + one if one < missing else -1 - (left + one - missing)
            flips[1] = low + two if two < missing else -1 - (left + two - missing)
            on_one = choice.take[flips[0]] if flips[0] >= 0 else choice.keep[-1 - flips[0]]
            on_two = choice.take[flips[1]] if flips[1] >= 0 else choice.keep[-1 - flips[1]]
            if on_one != on_two and _try(work, choice, flips, layer, layer, best, trial, spent):
                improved = True
    return improved


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def descend(work: Workload, choice: Choice, budget: int, levels: int = _LEVELS) -> tuple[int, int]:
    """Improve a choice in place.

    Parameters
    ----------
    work
        The experts. Where the host cannot compute, only the copy sequence is searched.
    choice
        A feasible choice; improved in place.
    budget
        Largest effort, in experts simulated (about 2 ns each).
    levels
        Use only the first so many neighbourhoods.

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
    level = 1
    while level <= levels and spent[0] < budget:
        improved = False
        for layer in range(layers):
            if spent[0] >= budget or (level != 4 and not work.host_computes):
                break
            if level == 1:
                changed = _step_layer(work, choice, layer, best, trial, spent)
            elif level == 2:
                changed = _shift_layer(work, choice, layer, best, trial, spent)
            elif level == 3:
                changed = _toggle_layer(work, choice, layer, best, trial, spent, budget)
            elif level == 4:
                changed = _reorder_layer(work, choice, layer, best, trial, spent, budget)
            else:
                changed = _swap_layer(work, choice, layer, best, trial, spent, budget)
            improved = improved or changed
        if not improved:
            level += 1
        elif level > 1:
            level = 1
    return best.starts_ns[layers], spent[0]
