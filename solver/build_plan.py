"""From a choice of experts to a plan in canonical order."""

from __future__ import annotations

import numpy as np

from prescope.formulation.plan import LayerPlan, Plan, Transfer
from prescope.formulation.workload import Workload
from prescope.solver.simulate import Choice, advance, new_track


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
    track = new_track(work)
    layers: list[LayerPlan] = []
    transfers: list[Transfer] = []
    for layer in range(len(work.dense_ns)):
        advance(work, choice, layer, ahead, track, order)
        low, high = int(work.missing_offsets[layer]), int(work.missing_offsets[layer + 1])
        left, right = int(work.resident_offsets[layer]), int(work.resident_offsets[layer + 1])
        taken, kept = choice.take[low:high], choice.keep[left:right]
        sequence = choice.sequence[low:high]
        copied = work.missing[sequence[choice.take[sequence]]].tolist()
        device = int(taken.sum() + kept.sum())
        gpu = tuple(
            int(work.missing[rank]) if rank >= 0 else int(work.resident[-1 - rank])
            for rank in order[:device].tolist()
        )
        cpu = (*work.missing[low:high][~taken].tolist(), *work.resident[left:right][~kept].tolist())
        layers.append(LayerPlan(gpu=gpu, cpu=cpu))
        gate = max(-1, layer - ahead) if limited else None
        transfers.extend(Transfer(layer=layer, expert=expert, gate=gate) for expert in copied)
    return Plan(layers=tuple(layers), transfers=tuple(transfers))
