"""One layer of lookahead: the joint split of the current and the next layer.

A reconstruction of PreSched of PreScope / LayerScope (arXiv 2509.23638) in its best reading: at each gate the
current layer's split is chosen together with the next layer's; link time left over in the current layer
prefetches the next layer's heaviest experts; a prefetch is issued only where the joint split says that
running it on the device, late or not, ends the next layer earlier than the host would.
"""

from __future__ import annotations

import numba
import numpy as np

from prescope.formulation.demand import IntArray
from prescope.formulation.instance import Instance
from prescope.formulation.plan import Plan
from prescope.formulation.workload import LayerTables, Workload, layer_tables, workload
from prescope.solver.base import Draft
from prescope.solver.build_plan import build_plan
from prescope.solver.result import HintUse, Limits, Statistics
from prescope.solver.simulate import Choice, Track, advance, new_choice, new_track, set_layer

_FAR = 1 << 60


@numba.njit(cache=True)
def _end(
    work: Workload, tables: LayerTables, choice: Choice, layer: int, copies: int, ahead: int, track: Track
) -> int:
    set_layer(work, layer, copies, tables.demoted[layer, copies], choice)
    return advance(work, choice, layer, ahead, track, np.empty(0, dtype=np.int64))


@numba.njit(cache=True)
def _best_split(
    work: Workload,
    tables: LayerTables,
    choice: Choice,
    layer: int,
    guess: int,
    least: int,
    ahead: int,
    track: Track,
    inner: IntArray,
) -> tuple[int, int]:
    """Marginal search from ``guess``: fewer copies while no worse, else more while better.

    With ``inner`` the next layer's end counts, its own split found likewise from ``inner[0]``, which is
    updated: it moves little between neighbouring splits of this layer.
    """
    limit = tables.max_copies[layer] if work.slots > 0 else 0
    start = min(max(guess, least), limit)
    copies, best, best_end, best_inner = start, start, _FAR, 0
    step = -1
    while least <= copies <= limit:
        end = _end(work, tables, choice, layer, copies, ahead, track)
        if inner.shape[0] > 0:
            all_missing = tables.max_copies[layer + 1]
            next_least = 0 if work.host_computes else all_missing
            inner[0], end = _best_split_alone(
                work, tables, choice, layer + 1, inner[0], next_least, ahead, track
            )
        if end < best_end or (end == best_end and step < 0):
            best, best_end = copies, end
            best_inner = inner[0] if inner.shape[0] > 0 else 0
            copies += step
            if copies >= least:
                continue
        if step > 0 or best != start:
            break
        step, copies = 1, start + 1
    if inner.shape[0] > 0:
        inner[0] = best_inner
    return best, best_end


@numba.njit(cache=True)
def _best_split_alone(
    work: Workload,
    tables: LayerTables,
    choice: Choice,
    layer: int,
    guess: int,
    least: int,
    ahead: int,
    track: Track,
) -> tuple[int, int]:
    """As `_best_split` without a next layer; a copy of its loop, since compiled code cannot recurse here."""
    limit = tables.max_copies[layer] if work.slots > 0 else 0
    start = min(max(guess, least), limit)
    copies, best, best_end = start, start, _FAR
    step = -1
    while least <= copies <= limit:
        end = _end(work, tables, choice, layer, copies, ahead, track)
        if end < best_end or (end == best_end and step < 0):
            best, best_end = copies, end
            copies += step
            if copies >= least:
                continue
        if step > 0 or best != start:
            break
        step, copies = 1, start + 1
    return best, best_end


@numba.njit(cache=True)
def _issued(work: Workload, layer: int, wanted: int, track: Track) -> int:
    """How many of the ``wanted`` copies of ``layer`` start before its gate."""
    gate = track.starts_ns[layer] + work.dense_ns[layer]
    release = track.starts_ns[layer - 1] + work.dense_ns[layer - 1]
    link = track.links_ns[layer]
    first = track.copies[layer]
    for copy in range(first, first + wanted):
        begin = max(link, release)
        if copy >= work.slots:
            if copy - work.slots >= first:
                return int(copy - first)
            begin = max(begin, track.free_ns[copy - work.slots])
        if begin >= gate:
            return int(copy - first)
        link = begin + work.copy_ns[layer]
    return wanted


@numba.njit(cache=True)
def split_pairs(work: Workload, tables: LayerTables, choice: Choice) -> None:
    """Write the split of every layer."""
    layers = work.dense_ns.shape[0]
    ahead = min(work.lookahead, 1)
    track = new_track(work)
    inner = np.zeros(1, dtype=np.int64)
    issued = 0
    guess = 0
    for layer in range(layers):
        least = issued if work.host_computes else tables.max_copies[layer]
        copies, _ = _best_split_alone(work, tables, choice, layer, guess, least, ahead, track)
        guess = copies
        joint = ahead == 1 and layer + 1 < layers
        if joint:
            inner[0] = copies
            copies, _ = _best_split(work, tables, choice, layer, copies, least, ahead, track, inner)
            guess = inner[0]
        _end(work, tables, choice, layer, copies, ahead, track)
        issued = _issued(work, layer + 1, inner[0], track) if joint else 0


class PreSched:
    """Joint split of two neighbouring layers by marginal search, prefetching one layer ahead.

    With ``lookahead = 0`` it cannot prefetch and chooses every layer by itself. Where the host cannot
    compute, all missing experts are copied, one layer ahead.
    """

    name = "presched"

    def plan(self, instance: Instance, *, limits: Limits, seed: int, hint: Plan | None) -> Draft:
        """Plan a batch; limits and seed change nothing, a hint is ignored."""
        work = workload(instance)
        choice = new_choice(work)
        split_pairs(work, layer_tables(work), choice)
        used = HintUse.ABSENT if hint is None else HintUse.IGNORED
        return Draft(plan=build_plan(work, choice, lookahead=1), statistics=Statistics(hint=used))


METHOD = PreSched()
