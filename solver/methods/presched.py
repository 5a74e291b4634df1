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


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _end(
    work: Workload, tables: LayerTables, choice: Choice, layer: int, copies: int, ahead: int, track: Track
) -> int:
    set_layer(work, layer, copies, tables.demoted[layer, copies], choice)
    return advance(work, choice, layer, ahead, track, np.empty(0, dtype=np.int64))  # type: ignore[no-any-return]


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _walk(
    work: Workload,
    tables: LayerTables,
    choice: Choice,
    layer: int,
    start: int,
    least: int,
    ahead: int,
    track: Track,
    joint: bool,
    inner: IntArray,
) -> tuple[int, int]:
    """Marginal search from ``start``: step up or down while the end (of the next layer, if joint) falls."""
    limit = tables.max_copies[layer] if work.slots > 0 else 0
    best = min(max(start, least), limit)
    best_end = _joint_end(work, tables, choice, layer, best, ahead, track, joint, inner)
    for step in (-1, 1):
        while least <= best + step <= limit:
            end = _joint_end(work, tables, choice, layer, best + step, ahead, track, joint, inner)
            if end > best_end or (end == best_end and step > 0):
                break
            best, best_end = best + step, end
    return best, best_end


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _joint_end(
    work: Workload,
    tables: LayerTables,
    choice: Choice,
    layer: int,
    copies: int,
    ahead: int,
    track: Track,
    joint: bool,
    inner: IntArray,
) -> int:
    end = _end(work, tables, choice, layer, copies, ahead, track)
    if not joint:
        return end  # type: ignore[no-any-return]
    # The next layer's best split moves little between neighbouring splits of this one.
    least = 0 if work.host_computes else tables.max_copies[layer + 1]
    limit = tables.max_copies[layer + 1] if work.slots > 0 else 0
    best = min(max(inner[0], least), limit)
    best_end = _end(work, tables, choice, layer + 1, best, ahead, track)
    for step in (-1, 1):
        while least <= best + step <= limit:
            other = _end(work, tables, choice, layer + 1, best + step, ahead, track)
            if other > best_end or (other == best_end and step > 0):
                break
            best, best_end = best + step, other
    inner[0] = best
    return best_end  # type: ignore[no-any-return]


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
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
                return copy - first
            begin = max(begin, track.free_ns[copy - work.slots])
        if begin >= gate:
            return copy - first
        link = begin + work.copy_ns[layer]
    return wanted


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
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
        own, _ = _walk(work, tables, choice, layer, guess, least, ahead, track, False, inner)
        copies = own
        joint = ahead == 1 and layer + 1 < layers
        if joint:
            inner[0] = own
            copies, _ = _walk(work, tables, choice, layer, own, least, ahead, track, True, inner)
            _joint_end(work, tables, choice, layer, copies, ahead, track, True, inner)
        _end(work, tables, choice, layer, copies, ahead, track)
        issued = _issued(work, layer + 1, inner[0], track) if joint else 0
        guess = inner[0] if joint else own


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
