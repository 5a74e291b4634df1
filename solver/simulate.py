"""A fast exact simulation of plans in canonical order, layer by layer, resumable at any layer.

Canonical order: copies in layer order and, inside a layer, in a given sequence (at first heaviest first); the
device runs a landed copy as
soon as it is free (which frees slots earliest), residents otherwise, heaviest first. Device work then ends in
copy order, so copy ``c`` simply waits for the slot freed by copy ``c - slots``. The times are those that
`prescope.formulation.evaluate` gives the plan built by `prescope.solver.build_plan`.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from prescope.formulation.demand import IntArray
from prescope.formulation.workload import Workload

BoolArray = npt.NDArray[np.bool_]


class Choice(NamedTuple):
    """Who runs where, by rank in the workload.

    Parameters
    ----------
    take
        Whether each missing expert is copied to the device, bool ``[M]``.
    keep
        Whether each resident stays on the device, bool ``[R]``.
    sequence
        The ranks of the missing experts in copy order, a permutation inside each layer, int64 ``[M]``.
    """

    take: BoolArray
    keep: BoolArray
    sequence: IntArray


class Track(NamedTuple):
    """State of a simulation on entering each layer.

    Parameters
    ----------
    starts_ns, links_ns, hosts_ns, copies
        Start of the layer, times the link and the host are free, copies before it; int64 ``[L + 1]``.
    free_ns
        When the slot of each copy is freed, by copy number, int64 ``[M]``.
    """

    starts_ns: IntArray
    links_ns: IntArray
    hosts_ns: IntArray
    copies: IntArray
    free_ns: IntArray


@numba.njit(cache=True)
def new_track(work: Workload) -> Track:
    """A track at the start of the batch."""
    layers = work.dense_ns.shape[0]
    track = Track(
        np.zeros(layers + 1, dtype=np.int64),
        np.zeros(layers + 1, dtype=np.int64),
        np.zeros(layers + 1, dtype=np.int64),
        np.zeros(layers + 1, dtype=np.int64),
        np.zeros(work.missing.shape[0], dtype=np.int64),
    )
    track.links_ns[0] = work.link_ready_ns
    return track


@numba.njit(cache=True)
def advance(work: Workload, choice: Choice, layer: int, lookahead: int, track: Track, order: IntArray) -> int:
    """Run one layer from its entry in ``track``, write the next entry, return the layer's end.

    Parameters
    ----------
    work, choice
        The experts and where they run.
    layer
        Which layer.
    lookahead
        The instance's, or less.
    track
        Read at ``layer`` and before, written at ``layer + 1``.
    order
        Receives the device order unless empty: rank of a missing expert, or ``-1 - rank`` of a resident.
    """
    # Local names: every field access in a loop would count references.
    take, keep, sequence = choice.take, choice.keep, choice.sequence
    starts_ns, free_ns = track.starts_ns, track.free_ns
    missing_cpu_ns, missing_gpu_ns = work.missing_cpu_ns, work.missing_gpu_ns
    resident_cpu_ns, resident_gpu_ns = work.resident_cpu_ns, work.resident_gpu_ns
    slots, copy_ns = work.slots, work.copy_ns[layer]
    low, high = work.missing_offsets[layer], work.missing_offsets[layer + 1]
    left, right = work.resident_offsets[layer], work.resident_offsets[layer + 1]
    gate = starts_ns[layer] + work.dense_ns[layer]
    release = 0
    if lookahead == 0:
        release = gate
    elif layer >= lookahead:
        release = starts_ns[layer - lookahead] + work.dense_ns[layer - lookahead]
    host_end = max(gate, track.hosts_ns[layer])
    host_works = False
    for rank in range(low, high):
        if not take[rank]:
            host_end += missing_cpu_ns[rank]
            host_works = True
    for rank in range(left, right):
        if not keep[rank]:
            host_end += resident_cpu_ns[rank]
            host_works = True
    device = gate
    link = track.links_ns[layer]
    copy = track.copies[layer]
    resident = right - 1
    write = order.shape[0] > 0
    placed = 0
    for place in range(low, high):
        rank = sequence[place]
        if not take[rank]:
            continue
        begin = max(link, release)
        if copy >= slots:
            begin = max(begin, free_ns[copy - slots])
        link = begin + copy_ns
        while link > device and resident >= left:
            if keep[resident]:
                device += resident_gpu_ns[resident]
                if write:
                    order[placed] = -1 - resident
                    placed += 1
            resident -= 1
        device = max(device, link) + missing_gpu_ns[rank]
        free_ns[copy] = device
        copy += 1
        if write:
            order[placed] = rank
            placed += 1
    while resident >= left:
        if keep[resident]:
            device += resident_gpu_ns[resident]
            if write:
                order[placed] = -1 - resident
                placed += 1
        resident -= 1
    host_free = host_end + work.prediction_ns[layer]
    end = max(device, host_end) if host_works else device
    if layer == work.dense_ns.shape[0] - 1:
        end = max(end, host_free)
    starts_ns[layer + 1] = end
    track.links_ns[layer + 1] = link
    track.hosts_ns[layer + 1] = host_free
    track.copies[layer + 1] = copy
    return int(end)


@numba.njit(cache=True)
def simulate(work: Workload, choice: Choice, lookahead: int, track: Track) -> int:
    """Run all layers; returns the makespan and leaves every layer's state in ``track``."""
    no_order = np.empty(0, dtype=np.int64)
    end = 0
    for layer in range(work.dense_ns.shape[0]):
        end = advance(work, choice, layer, lookahead, track, no_order)
    return end


@numba.njit(cache=True)
def set_layer(work: Workload, layer: int, copies: int, demoted: int, choice: Choice) -> None:
    """Copy a layer's heaviest ``copies`` missing experts and demote its ``demoted`` lightest residents."""
    low = work.missing_offsets[layer]
    for rank in range(low, work.missing_offsets[layer + 1]):
        choice.take[rank] = rank - low < copies
    low = work.resident_offsets[layer]
    for rank in range(low, work.resident_offsets[layer + 1]):
        choice.keep[rank] = rank - low >= demoted


@numba.njit(cache=True)
def choose_heaviest(work: Workload, copies: IntArray, demoted: IntArray, choice: Choice) -> None:
    """Write the choice with given numbers of copies and, for each of them, of demoted residents.

    ``demoted`` is the table of `prescope.formulation.workload.LayerTables`, ``copies`` int64 ``[L]``.
    """
    for layer in range(work.dense_ns.shape[0]):
        set_layer(work, layer, copies[layer], demoted[layer, copies[layer]], choice)


def new_choice(work: Workload) -> Choice:
    """A choice that copies nobody, keeps every resident and would copy the heaviest first."""
    return Choice(
        np.zeros(len(work.missing), dtype=np.bool_),
        np.ones(len(work.resident), dtype=np.bool_),
        np.arange(len(work.missing)),
    )
