"""An instance as plain arrays, for compiled code."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import ref

import numpy as np
import numpy.typing as npt

from prescope.formulation.demand import IntArray
from prescope.formulation.instance import Instance


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InstanceArrays:
    """Durations and flags of an instance; ``L`` layers, ``E`` experts. All arrays are read-only.

    Parameters
    ----------
    copy_ns, dense_ns, prediction_ns
        Per layer, int64 ``[L]``.
    gpu_ns, cpu_ns
        Time of each activated expert on either side, int64 ``[L, E]``; zero where it has no tokens.
    active, resident
        Whether an expert has tokens, and whether it is pinned on the device, bool ``[L, E]``.
    """

    copy_ns: IntArray
    dense_ns: IntArray
    prediction_ns: IntArray
    gpu_ns: IntArray
    cpu_ns: IntArray
    active: npt.NDArray[np.bool_]
    resident: npt.NDArray[np.bool_]


# By identity: hashing an instance reads all its counts, which costs more than planning a layer.
_cache: dict[int, tuple[ref[Instance], InstanceArrays]] = {}


def instance_arrays(instance: Instance) -> InstanceArrays:
    """The arrays of an instance, made once and kept as long as the instance lives."""
    key = id(instance)
    entry = _cache.get(key)
    if entry is not None and entry[0]() is instance:
        return entry[1]
    arrays = _build(instance)
    _cache[key] = ref(instance, lambda _: _cache.pop(key, None)), arrays
    return arrays


def _build(instance: Instance) -> InstanceArrays:
    counts, costs = instance.demand.counts, instance.costs
    layers, experts = counts.shape
    gpu_ns = np.zeros((layers, experts), dtype=np.int64)
    cpu_ns = np.zeros((layers, experts), dtype=np.int64)
    resident = np.zeros((layers, experts), dtype=np.bool_)
    for layer in range(layers):
        # Many experts share a count: one evaluation of the curve per distinct count.
        for tokens in np.unique(counts[layer]).tolist():
            chosen = counts[layer] == tokens
            gpu_ns[layer, chosen] = costs.gpu_ns(layer, tokens)
            cpu_ns[layer, chosen] = costs.cpu_ns(layer, tokens)
        resident[layer, list(instance.residents[layer])] = True
    arrays = InstanceArrays(
        copy_ns=np.array([costs.copy_ns(layer) for layer in range(layers)], dtype=np.int64),
        dense_ns=np.array(
            [costs.dense_ns(layer, instance.demand.batch_tokens) for layer in range(layers)], dtype=np.int64
        ),
        prediction_ns=np.array(instance.prediction_ns or (0,) * layers, dtype=np.int64),
        gpu_ns=gpu_ns,
        cpu_ns=cpu_ns,
        active=counts > 0,
        resident=resident,
    )
    for name in ("copy_ns", "dense_ns", "prediction_ns", "gpu_ns", "cpu_ns", "active", "resident"):
        getattr(arrays, name).flags.writeable = False
    return arrays
