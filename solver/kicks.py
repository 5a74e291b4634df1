"""Iterated local search: random kicks, each followed by a descent; for what a single descent misses."""

from __future__ import annotations

import numba
import numpy as np

from prescope.formulation.workload import Workload
from prescope.solver.descent import descend, flip
from prescope.solver.simulate import Choice

_LARGEST_KICK = 5


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _copy(source: Choice, target: Choice) -> None:
    target.take[:] = source.take
    target.keep[:] = source.keep
    target.sequence[:] = source.sequence


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _kick(work: Workload, choice: Choice, layer: int) -> None:
    """Flip a few experts of a layer, or exchange two places of its copy sequence."""
    low, high = work.missing_offsets[layer], work.missing_offsets[layer + 1]
    left, right = work.resident_offsets[layer], work.resident_offsets[layer + 1]
    if high - low > 1 and (not work.host_computes or np.random.random() < 0.2):
        one, two = np.random.randint(low, high), np.random.randint(low, high)
        choice.sequence[one], choice.sequence[two] = choice.sequence[two], choice.sequence[one]
    if not work.host_computes:
        return
    flips = np.empty(1, dtype=np.int64)
    for _ in range(np.random.randint(1, _LARGEST_KICK + 1)):
        pick = np.random.randint(0, high - low + right - left)
        flips[0] = low + pick if pick < high - low else -1 - (left + pick - (high - low))
        if work.slots > 0 or flips[0] < 0:
            flip(choice, flips)


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def kick_and_descend(
    work: Workload, choice: Choice, makespan_ns: int, target_ns: int, seed: int, budget: int
) -> tuple[int, int]:
    """Improve a choice in place until the target is reached or the budget spent.

    Parameters
    ----------
    work, choice
        The experts and a feasible choice; improved in place.
    makespan_ns
        Its makespan.
    target_ns
        A lower bound: stop once it is reached.
    seed
        Of the random kicks.
    budget
        Largest effort, in experts simulated.

    Returns
    -------
    makespan_ns, spent
        Of the improved choice, and the effort used.
    """
    np.random.seed(seed)
    layers = work.dense_ns.shape[0]
    trial = Choice(choice.take.copy(), choice.keep.copy(), choice.sequence.copy())
    spent = 0
    while spent < budget and makespan_ns > target_ns:
        layer = np.random.randint(0, layers)
        kicks = 1 if np.random.random() < 0.7 else 2
        for kick in range(kicks):
            place = min(layer + kick, layers - 1)
            active = work.missing_offsets[place + 1] - work.missing_offsets[place]
            active += work.resident_offsets[place + 1] - work.resident_offsets[place]
            if active > 0:
                _kick(work, trial, place)
        reached_ns, effort = descend(work, trial, budget - spent, 4)
        # A kick always costs something, or an instance without experts would never end.
        spent += effort + 100
        if reached_ns <= makespan_ns:
            makespan_ns = reached_ns
            _copy(trial, choice)
        else:
            _copy(choice, trial)
    return makespan_ns, spent
