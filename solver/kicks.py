"""Iterated local search: random kicks, each followed by a descent; for what a single descent misses."""

from __future__ import annotations

import numpy as np

from prescope.formulation.workload import Workload
from prescope.solver.descent import LEVELS, descend
from prescope.solver.simulate import Choice

_LARGEST_KICK = 5
# Every kick costs something, or an instance without experts would never end.
_KICK_EFFORT = 500


def _kick(work: Workload, choice: Choice, layer: int, rng: np.random.Generator) -> None:
    """Flip a few experts of a layer, or exchange two places of its copy sequence."""
    low, high = int(work.missing_offsets[layer]), int(work.missing_offsets[layer + 1])
    left, right = int(work.resident_offsets[layer]), int(work.resident_offsets[layer + 1])
    if high - low > 1 and (not work.host_computes or rng.random() < 0.2):
        one, two = rng.integers(low, high, 2)
        choice.sequence[[one, two]] = choice.sequence[[two, one]]
    if not work.host_computes or high - low + right - left == 0:
        return
    for pick in rng.integers(0, high - low + right - left, rng.integers(1, _LARGEST_KICK + 1)):
        if pick >= high - low:
            rank = left + pick - (high - low)
            choice.keep[rank] = not choice.keep[rank]
        elif work.slots > 0:
            choice.take[low + pick] = not choice.take[low + pick]


def kick_and_descend(
    work: Workload, choice: Choice, *, makespan_ns: int, target_ns: int, seed: int, budget: int
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
    rng = np.random.default_rng(seed)
    layers = len(work.dense_ns)
    trial = Choice(choice.take.copy(), choice.keep.copy(), choice.sequence.copy())
    spent = 0
    while spent < budget and makespan_ns > target_ns:
        layer = int(rng.integers(0, layers))
        _kick(work, trial, layer, rng)
        if rng.random() < 0.3:
            _kick(work, trial, min(layer + 1, layers - 1), rng)
        # The last neighbourhood is the dearest, and kicks do its work.
        reached_ns, effort = descend(work, trial, budget - spent, LEVELS - 1)
        spent += effort + _KICK_EFFORT
        better = reached_ns <= makespan_ns
        source, target = (trial, choice) if better else (choice, trial)
        for mine, other in zip(target, source, strict=True):
            mine[:] = other
        makespan_ns = min(makespan_ns, reached_ns)
    return makespan_ns, spent
