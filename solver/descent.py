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
LEVELS = 5
"""Number of neighbourhoods."""
_NONE = -(1 << 40)


@numba.njit(cache=True)
def flip(choice: Choice, flips: IntArray) -> None:
    """Send experts to their other side: rank of a missing one, or ``-1 - rank`` of a resident."""
    for index in range(flips.shape[0]):
        rank = flips[index]
        if rank >= 0:
            choice.take[rank] = not choice.take[rank]
        else:
            choice.keep[-1 - rank] = not choice.keep[-1 - rank]


@numba.njit(cache=True)
def _improves(
    work: Workload, choice: Choice, first: int, last: int, best: Track, trial: Track, spent: IntArray
) -> bool:
    """Whether a choice changed in layers ``first..last`` beats the incumbent; if so it replaces it."""
    layers = work.dense_ns.shape[0]
    for before in range(max(0, first - work.lookahead), first + 1):
        trial.starts_ns[before] = best.starts_ns[before]
    trial.links_ns[first] = best.links_ns[first]
    trial.hosts_ns[first] = best.hosts_ns[first]
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
        no_lead = trial.links_ns[now + 1] >= best.links_ns[now + 1]
        if now >= last and not better and no_lead and trial.hosts_ns[now + 1] >= best.hosts_ns[now + 1]:
            break
    if not better or trial.starts_ns[layers] >= best.starts_ns[layers]:
        return False
    simulate(work, choice, work.lookahead, best)
    return True


@numba.njit(cache=True)
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


@numba.njit(cache=True)
def _place(work: Workload, layer: int, index: int) -> int:
    """The ``index``-th activated expert of a layer as a flip: missing ones first, then residents."""
    missing = work.missing_offsets[layer + 1] - work.missing_offsets[layer]
    if index < missing:
        return work.missing_offsets[layer] + index  # type: ignore[no-any-return]
    return -1 - (work.resident_offsets[layer] + index - missing)  # type: ignore[no-any-return]


@numba.njit(cache=True)
def _on_device(choice: Choice, flip_of: int) -> bool:
    if flip_of >= 0:
        return choice.take[flip_of]  # type: ignore[no-any-return]
    return choice.keep[-1 - flip_of]  # type: ignore[no-any-return]


@numba.njit(cache=True)
def _move(
    level: int, number: int, work: Workload, choice: Choice, layer: int, flips: IntArray
) -> tuple[int, int]:
    """The ``number``-th move of a neighbourhood at a layer.

    Returns the number of flips written (for neighbourhood 4: the two places to exchange, always 2), 0 where
    this move does not apply, -1 where there are no more; and the last layer it touches.
    """
    layers = work.dense_ns.shape[0]
    missing = work.missing_offsets[layer + 1] - work.missing_offsets[layer]
    both = missing + work.resident_offsets[layer + 1] - work.resident_offsets[layer]
    count, last = -1, layer
    if level == 1 and number < 8:
        add, drop, demote, restore = _edges(work, choice, layer)
        first, second = (number + 1) % 3, (number + 1) // 3
        count = 0
        if first > 0:
            flips[0] = add if first == 1 else drop
            count = 1
        if second > 0:
            flips[count] = demote if second == 1 else restore
            count += 1
    elif level == 2 and number < 2 * (_REACH - 1):
        last = layer + 1 + number // 2
        count = 0
        if last < layers:
            add, drop, _, _ = _edges(work, choice, layer)
            add_other, drop_other, _, _ = _edges(work, choice, last)
            flips[0] = add if number % 2 == 0 else drop
            flips[1] = drop_other if number % 2 == 0 else add_other
            count = 2
    elif level == 3 and number < both:
        flips[0] = _place(work, layer, number)
        count = 1
    elif level == 4 and number < missing - 1:
        flips[0] = work.missing_offsets[layer] + number
        flips[1] = flips[0] + 1
        while flips[1] < work.missing_offsets[layer + 1] and not choice.take[choice.sequence[flips[1]]]:
            flips[1] += 1
        count = 2
        if flips[1] == work.missing_offsets[layer + 1] or not choice.take[choice.sequence[flips[0]]]:
            count = 0
    elif level == 5 and number < both * both:
        one, two = number // both, number % both
        count = 0
        if one < two:
            flips[0], flips[1] = _place(work, layer, one), _place(work, layer, two)
            if _on_device(choice, flips[0]) != _on_device(choice, flips[1]):
                count = 2
    if level != 4:
        for index in range(count):
            if flips[index] == _NONE or (flips[index] >= 0 and work.slots == 0):
                return 0, layer
    return count, last


@numba.njit(cache=True)
def _apply(level: int, choice: Choice, flips: IntArray) -> None:
    """Make a move; making it again undoes it."""
    if level == 4:
        one, two = choice.sequence[flips[0]], choice.sequence[flips[1]]
        choice.sequence[flips[0]], choice.sequence[flips[1]] = two, one
    else:
        flip(choice, flips)


@numba.njit(cache=True)
def descend(work: Workload, choice: Choice, budget: int, levels: int) -> tuple[int, int]:
    """Improve a choice in place.

    Parameters
    ----------
    work
        The experts. Where the host cannot compute, only the copy sequence is searched.
    choice
        A feasible choice; improved in place.
    budget
        Largest effort, in experts simulated (about 10 ns each).
    levels
        Use only the first so many neighbourhoods; `LEVELS` is all.

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
    flips = np.empty(2, dtype=np.int64)
    level = 1 if work.host_computes else 4
    while level <= levels and spent[0] < budget:
        improved = False
        for layer in range(layers):
            number = 0
            while spent[0] < budget:
                count, last = _move(level, number, work, choice, layer, flips)
                number += 1
                if count < 0:
                    break
                if count == 0:
                    continue
                _apply(level, choice, flips[:count])
                if _improves(work, choice, layer, last, best, trial, spent):
                    improved = True
                else:
                    _apply(level, choice, flips[:count])
        if not improved:
            level = level + 1 if work.host_computes else levels + 1
        elif work.host_computes:
            level = 1
    return int(best.starts_ns[layers]), int(spent[0])
