"""What a routing log says of itself before its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from prescope.formulation.checks import require_int
from prescope.instances.limits import MAX_BYTES, MAX_LAYERS
from prescope.instances.routing_trace import RoutingTrace, TraceMeta

LOG_VERSION = 1
WEIGHT_TYPES = ("float16", "float32")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogHeader:
    """What the rows of a log are rows of.

    Parameters
    ----------
    meta
        Model, experts per layer, experts per token, and where it comes from.
    layers
        MoE layers; dense ones do not count.
    numbers
        What the log calls each MoE layer; ``0 .. layers - 1`` by default.
    weights
        Type that routing weights are kept in.
    expert_bytes, dense_bytes
        Bytes of one expert, and of everything else, per MoE layer.
    size
        How many rows or records follow, where the log says so.
    """

    meta: TraceMeta
    layers: int
    numbers: tuple[int, ...] = ()
    weights: str = "float32"
    expert_bytes: tuple[int, ...] | None = None
    dense_bytes: tuple[int, ...] | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        require_int("layers", self.layers, 1, MAX_LAYERS)
        if not self.numbers:
            object.__setattr__(self, "numbers", tuple(range(self.layers)))
        if self.weights not in WEIGHT_TYPES:
            raise ValueError(
                f"expected weights to be one of {', '.join(WEIGHT_TYPES)}, got {self.weights!r:.60}"
            )
        for name, low in (("expert_bytes", 1), ("dense_bytes", 0)):
            sizes = getattr(self, name)
            if sizes is None:
                continue
            if len(sizes) != self.layers:
                raise ValueError(f"expected {name} of {self.layers} layers, got {len(sizes)}")
            for layer, size in enumerate(sizes):
                require_int(f"{name} of layer {self.numbers[layer]}", size, low, MAX_BYTES)
        if self.size is not None:
            require_int("size", self.size, 0)


def header_of(trace: RoutingTrace) -> LogHeader:
    """The header of a trace's log."""

    def sizes(array: Any) -> tuple[int, ...] | None:
        return None if array is None else tuple(array.tolist())

    weights = trace.topk_weights
    return LogHeader(
        meta=trace.meta,
        layers=trace.layers,
        weights="float16" if weights is not None and weights.dtype == np.float16 else "float32",
        expert_bytes=sizes(trace.expert_bytes),
        dense_bytes=sizes(trace.dense_bytes),
    )
