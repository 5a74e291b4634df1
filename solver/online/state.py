"""What a gate policy is told, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from prescope.formulation.demand import FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LayerForecast:
    """Expected costs of one coming layer; all arrays have shape ``[experts]``.

    Parameters
    ----------
    cpu_ns, gpu_ns
        Expected time of each expert on the host and on the device, float64: zero where it cannot be needed.
    probability
        Probability that the expert is needed, float64.
    held
        Whether its weights are on the device or on their way (resident, buffered, in flight).
    dense_ns, copy_ns
        Time of the layer before its gate, and of one copy of its experts.
    """

    cpu_ns: FloatArray
    gpu_ns: FloatArray
    probability: FloatArray
    held: npt.NDArray[np.bool_]
    dense_ns: int
    copy_ns: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GateState:
    """The situation when a layer's gate has spoken. Times count from the gate; arrays are ``[experts]``.

    Parameters
    ----------
    layer
        The layer of the gate; -1 is the start of a batch, when nothing is computed yet.
    gpu_ns, cpu_ns
        True time of each expert on either side, int64; zero without tokens.
    active
        Whether the expert has tokens.
    arrival_ns
        When its weights are on the device: 0 is now (residents too), -1 never unless a copy is issued.
    copy_ns
        Time of one copy of this layer's experts.
    link_free_ns
        When the copies already issued end.
    usable_slots
        Slots that this layer's own copies may use.
    free_slots
        Slots that prefetches may fill from the end of this layer on.
    host_computes
        Whether the host can run experts in place.
    future
        Forecasts of the next layers in order, as far as the lookahead allows.
    pinned
        Experts that hold no slot, bool; ``None`` where every expert on the device holds one.
    host_free_ns
        When the host can start its first expert of this layer: it may still be at work on predictions.
    """

    layer: int
    gpu_ns: IntArray
    cpu_ns: IntArray
    active: npt.NDArray[np.bool_]
    arrival_ns: IntArray
    copy_ns: int
    link_free_ns: int
    usable_slots: int
    free_slots: int
    host_computes: bool
    future: tuple[LayerForecast, ...]
    host_free_ns: int = 0
    pinned: npt.NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GateDecision:
    """What a layer does, and what the link should bring next.

    Parameters
    ----------
    gpu, cpu
        Experts of the layer on the device and on the host, in order.
    demand
        Those of ``gpu`` to copy now, in link order.
    prefetch
        Wished copies ``(layers ahead, expert)`` in link order, 1 being the next layer. They are issued as
        far as the link gets before the next gate, which decides anew.
    value_ns
        What is still to come on entering the layer after the next, by whole copies that the link is ahead,
        float64; with it a copy that would run into the next gate is started only where that is worth it.
        ``None`` starts it always.
    """

    gpu: tuple[int, ...]
    cpu: tuple[int, ...]
    demand: tuple[int, ...] = ()
    prefetch: tuple[tuple[int, int], ...] = ()
    value_ns: FloatArray | None = field(default=None, compare=False)
