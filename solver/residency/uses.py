"""Every use of an expert in a horizon, in order of time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from prescope.formulation.arrays import instance_arrays
from prescope.formulation.demand import IntArray
from prescope.formulation.horizon import Horizon


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Uses:
    """``U`` uses of experts whose weights have one size; all arrays are int64 ``[U]``.

    Parameters
    ----------
    time
        ``step * layers + layer`` of the use, ascending.
    key
        ``layer * experts + expert``.
    cpu_ns, gpu_ns, copy_ns
        Its time on the host, on the device and on the link.
    following
        The next use of the same expert, or -1.
    """

    time: IntArray
    key: IntArray
    cpu_ns: IntArray
    gpu_ns: IntArray
    copy_ns: IntArray
    following: IntArray

    def __len__(self) -> int:
        return int(self.time.shape[0])


def all_uses(horizon: Horizon) -> Uses:
    """The uses of all layers."""
    columns: list[IntArray] = []
    for step in range(horizon.steps):
        arrays = instance_arrays(horizon.instance(step, horizon.residents))
        layer, expert = arrays.active.nonzero()
        columns.append(
            np.stack(
                [
                    step * horizon.layers + layer,
                    layer * horizon.experts + expert,
                    arrays.cpu_ns[layer, expert],
                    arrays.gpu_ns[layer, expert],
                    arrays.copy_ns[layer],
                ]
            )
        )
    time, key, cpu_ns, gpu_ns, copy_ns = np.concatenate(columns, axis=1).astype(np.int64)
    return Uses(time=time, key=key, cpu_ns=cpu_ns, gpu_ns=gpu_ns, copy_ns=copy_ns, following=_following(key))


def by_size(horizon: Horizon, uses: Uses) -> Iterator[tuple[int, Uses]]:
    """The uses apart by the bytes of their expert: ``(bytes, uses)``."""
    sizes = np.array(horizon.costs.expert_bytes)[uses.key // horizon.experts]
    for size in sorted(set(horizon.costs.expert_bytes)):
        chosen = sizes == size
        yield (
            size,
            Uses(
                time=uses.time[chosen],
                key=uses.key[chosen],
                cpu_ns=uses.cpu_ns[chosen],
                gpu_ns=uses.gpu_ns[chosen],
                copy_ns=uses.copy_ns[chosen],
                following=_following(uses.key[chosen]),
            ),
        )


def _following(key: IntArray) -> IntArray:
    order = np.argsort(key, kind="stable")
    following = np.full(key.shape[0], -1, dtype=np.int64)
    same = key[order][1:] == key[order][:-1]
    following[order[:-1][same]] = order[1:][same]
    return following
