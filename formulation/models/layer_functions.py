"""What one layer costs as functions of its number of copies: the only data of the compact models.

`Tables.BOUND` bounds every plan, whichever experts are copied or demoted. `Tables.PLAN` is what copying the
heaviest first attains. They coincide where the device's time is the same for all missing experts of a layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from prescope.formulation.demand import IntArray
from prescope.formulation.reduction import layer_table
from prescope.formulation.relaxation import fill_relaxed_table
from prescope.formulation.workload import Workload


class Tables(StrEnum):
    """Which tables a compact model is made of."""

    BOUND = "bound"
    PLAN = "plan"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LayerFunctions:
    """One layer against its number of copies ``m = least..most``; arrays are int64 ``[most + 1]``.

    Parameters
    ----------
    least, most
        Copies it may make; more than ``most`` only use the link.
    dense_ns, copy_ns
        Of the layer.
    table_ns
        The layer lasts at least this long.
    tail_ns
        It ends at least this long after its last copy could have landed on a link that never pauses; for no
        copies, less the time at which the link is first free.
    carry_ns
        Later copies begin at least this long after that (one slot only: they wait for the device).
    opened_ns
        The link has done all copies up to this layer, and may go on, no earlier than this after the layer's
        start, if as many copies as there are slots have gone ahead by then; negative while that is no limit.
    """

    least: int
    most: int
    dense_ns: int
    copy_ns: int
    table_ns: IntArray
    tail_ns: IntArray
    carry_ns: IntArray
    opened_ns: IntArray

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LayerFunctions):
            return NotImplemented
        return all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in LayerFunctions.__slots__
        )


def layer_functions(work: Workload, tables: Tables) -> tuple[LayerFunctions, ...]:
    """The functions of every layer.

    Write ``P`` for the layer's copy time, ``B`` for the slots, ``S(r)`` for the ``r`` cheapest device times
    of its missing experts (`Tables.BOUND`) or those of the first ``r`` copies (`Tables.PLAN`). Until the
    layer's gate plus ``S(r)``, ``r <= m``, at most ``r - 1`` of its copies have freed their slots, so at most
    ``B + r - 1`` copies of this layer and later ones have begun: the rest of them uses the link afterwards.
    """
    layers = range(len(work.dense_ns))
    counts = np.diff(work.missing_offsets)
    longest, longest_from = 0, {}
    for layer in reversed(layers):
        if counts[layer] > 0:
            longest = max(longest, int(work.copy_ns[layer]))
        longest_from[layer] = longest
    return tuple(_one(work, tables, layer, longest_from[layer]) for layer in layers)


def _one(work: Workload, tables: Tables, layer: int, longest_ns: int) -> LayerFunctions:
    low, high = int(work.missing_offsets[layer]), int(work.missing_offsets[layer + 1])
    left, right = int(work.resident_offsets[layer]), int(work.resident_offsets[layer + 1])
    dense, copy, slots = int(work.dense_ns[layer]), int(work.copy_ns[layer]), int(work.slots)
    missing = high - low
    cpu, gpu = work.missing_cpu_ns[low:high], work.missing_gpu_ns[low:high]
    resident_cpu, resident_gpu = work.resident_cpu_ns[left:right], work.resident_gpu_ns[left:right]
    copies = np.arange(missing + 1)
    if tables is Tables.BOUND:
        table, tail = np.zeros(missing + 1, dtype=np.int64), np.zeros(missing + 1, dtype=np.int64)
        fill_relaxed_table(cpu, gpu, resident_cpu, resident_gpu, dense, copy, work.host_computes, table, tail)
        sums = _sums(np.sort(gpu))
    else:
        table, _, _ = layer_table(cpu, gpu, resident_cpu, resident_gpu, dense, missing, work.host_computes)
        sums = _sums(gpu)
        tail = np.zeros(missing + 1, dtype=np.int64)
        for count in range(1, missing + 1):
            last = np.arange(count)
            tail[count] = (sums[count] - sums[last] - (count - 1 - last) * copy).max()
    least_gpu = int(gpu.min()) if missing else 0
    # A layer that copies more than the slots hold frees one, copies into it and computes that, so many times.
    waiting = np.maximum(copies - slots, 0)
    rounds = -(-waiting // max(slots, 1))
    wait = least_gpu + np.maximum(waiting * copy + least_gpu, rounds * (copy + least_gpu))
    table = np.where(waiting > 0, np.maximum(table, dense + wait), table)
    first = np.maximum.accumulate(sums[1:] - copies[:-1] * longest_ns) if missing else np.zeros(0, np.int64)
    opened = np.zeros(missing + 1, dtype=np.int64)
    opened[1:] = dense + first - slots * longest_ns + copies[1:] * copy
    opened[0] = min(int(table[0]), dense + least_gpu) - slots * longest_ns
    carry = np.zeros(missing + 1, dtype=np.int64)
    if slots == 1:
        # The slot's next copy waits for the device work of the one before it: one chain.
        carry, tail = sums.copy(), sums.copy()
        opened[1:] = np.maximum(opened[1:], dense + sums[1:] + (copies[1:] - 1) * copy)
    # A layer without copies need not wait for a link that is busy at the start of the batch.
    tail[0] = -int(work.link_ready_ns)
    least, most = 0, 0
    if not work.host_computes:
        least = most = missing
    elif slots > 0:
        most = int(table.argmin())
    end = most + 1
    return LayerFunctions(
        least=least,
        most=most,
        dense_ns=dense,
        copy_ns=copy,
        table_ns=table[:end],
        tail_ns=tail[:end],
        carry_ns=carry[:end],
        opened_ns=opened[:end],
    )


def _sums(times_ns: IntArray) -> IntArray:
    """Sums of the first ``r``, ``r = 0..n``."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(times_ns)])
