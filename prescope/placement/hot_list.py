"""Which experts stay on the device for good, and what share of the work that catches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prescope.instances import choose_residents

BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HotList:
    """A fixed placement.

    Parameters
    ----------
    mask
        Whether an expert is on the device, bool ``[layers, experts]``.
    activations
        How many tokens chose each expert, int64 ``[layers, experts]``.
    """

    mask: BoolArray
    activations: IntArray

    def __post_init__(self) -> None:
        if self.mask.ndim != 2 or self.mask.shape != self.activations.shape:
            raise ValueError(
                "expected mask and activations of one shape [layers, experts], "
                f"got {self.mask.shape} and {self.activations.shape}"
            )
        if self.activations.min(initial=0) < 0:
            raise ValueError(f"expected activations >= 0, got {self.activations.min()}")

    @property
    def experts(self) -> int:
        """How many experts are on the device."""
        return int(self.mask.sum())

    @property
    def covered(self) -> float:
        """Share of all activations whose expert is on the device, 0 to 1; 0 without any activation."""
        total = int(self.activations.sum())
        return float(self.activations[self.mask].sum() / total) if total else 0.0


def hottest_of_each_layer(activations: IntArray, count: int) -> HotList:
    """The ``count`` most chosen experts of every layer; of equal ones the lower index.

    Raises
    ------
    ValueError
        When there are fewer than ``count`` in a layer.
    """
    mask = np.zeros(activations.shape, dtype=np.bool_)
    for layer, row in enumerate(choose_residents(activations, count=count)):
        mask[layer, list(row)] = True
    return HotList(mask=mask, activations=activations)


def hottest_of_all(activations: IntArray, count: int) -> HotList:
    """The ``count`` most chosen experts wherever they are; of equal ones the first.

    Raises
    ------
    ValueError
        When there are fewer than ``count``.
    """
    (chosen,) = choose_residents(activations.reshape(1, -1), count=count)
    mask = np.zeros(activations.size, dtype=np.bool_)
    mask[list(chosen)] = True
    return HotList(mask=mask.reshape(activations.shape), activations=activations)


def whole_layers(activations: IntArray, count: int) -> HotList:
    """As many whole layers as ``count`` experts fill: the most chosen ones, of equal ones the last.

    Every token passes every layer, so that they differ only where not all routing was recorded; the last ones
    are what `llama.cpp` can leave on the device with one number.
    """
    layers, experts = activations.shape
    if not 0 <= count <= activations.size:
        raise ValueError(f"expected a number of experts in [0, {activations.size}], got {count}")
    order = sorted(range(layers), key=lambda layer: (int(activations[layer].sum()), layer), reverse=True)
    mask = np.zeros(activations.shape, dtype=np.bool_)
    mask[order[: count // experts]] = True
    return HotList(mask=mask, activations=activations)
