"""From a choice of experts to a plan in canonical order."""

from __future__ import annotations

import numba
import numpy as np

from prescope.formulation.demand import IntArray
from prescope.formulation.plan import LayerPlan, Plan, Transfer
from prescope.formulation.workload import Workload
from prescope.solver.simulate import Choice, Track, advance, new_track


def build_plan(work: Workload, choice: Choice, *, lookahead: int | None = None) -> Plan:
    """The plan that `prescope.solver.simulate.simulate` times.

    Parameters
    ----------
    work, choice
        The experts and where they run.
    lookahead
        Release copies only this many layers ahead instead of as early as the instance allows.
    """
    limited = lookahead is not None and lookahead < work.lookahead
    ahead = work.lookahead if lookahead is None else min(lookahead, work.lookahead)
    order = np.zeros(len(work.missing) + len(work.resident) + 1, dtype=np.int64)
    ends = np.zeros(len(work.dense_ns), dtype=np.int64)
    _device_orders(work, choice, ahead, new_track(work), order, ends)
    # Lists: taking single numbers out of arrays would be most of the time.
    missing, resident, ranks = work.missing.tolist(), work.resident.tolist(), order.tolist()
    take, keep, sequence = choice.take.tolist(), choice.keep.tolist(), choice.sequence.tolist()
    missing_offsets, resident_offsets = work.missing_offsets.tolist(), work.resident_offsets.tolist()
    layers: list[LayerPlan] = []
    transfers: list[Transfer] = []
    begin = 0
    for layer, end in enumerate(ends.tolist()):
        low, high = missing_offsets[layer], missing_offsets[layer + 1]
        left, right = resident_offsets[layer], resident_offsets[layer + 1]
        gpu = [missing[rank] if rank >= 0 else resident[-1 - rank] for rank in ranks[begin:end]]
        cpu = [missing[rank] for rank in range(low, high) if not take[rank]]
        cpu += [resident[rank] for rank in range(left, right) if not keep[rank]]
        layers.append(LayerPlan(gpu=tuple(gpu), cpu=tuple(cpu)))
        gate = max(-1, layer - ahead) if limited else None
        copied = [missing[rank] for rank in sequence[low:high] if take[rank]]
        transfers += [Transfer(layer=layer, expert=expert, gate=gate) for expert in copied]
        begin = end
    return Plan(layers=tuple(layers), transfers=tuple(transfers))


@numba.njit(cache=True)
def _device_orders(
    work: Workload, choice: Choice, lookahead: int, track: Track, order: IntArray, ends: IntArray
) -> None:
    """Write the layers' device orders one after the other, and where each ends: one call, not one a layer."""
    end = 0
    for layer in range(len(work.dense_ns)):
        advance(work, choice, layer, lookahead, track, order[end:])
        for rank in range(work.missing_offsets[layer], work.missing_offsets[layer + 1]):
            end += choice.take[rank]
        for rank in range(work.resident_offsets[layer], work.resident_offsets[layer + 1]):
            end += choice.keep[rank]
        ends[layer] = end
