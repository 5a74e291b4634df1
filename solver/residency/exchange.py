"""Whoever was brought to the device may take the place of a resident that is worth less."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from prescope.formulation.demand import FloatArray, IntArray
from prescope.formulation.horizon_swaps import SwapTimes

BoolArray = npt.NDArray[np.bool_]


def exchange(
    resident: BoolArray,
    brought: BoolArray,
    scores: FloatArray,
    sizes: Sequence[int],
    *,
    per_layer: bool = False,
    times: SwapTimes | None = None,
) -> BoolArray:
    """Residents of the next step: each exchange gives a place to a brought expert that is worth more.

    Places have sizes, so experts only change places with others of their size.

    Parameters
    ----------
    resident, brought
        Who has a place, and who lies in a slot, bool ``[layers, experts]``.
    scores
        Worth of a place for each expert, same shape; of equal ones the resident stays.
    sizes
        Bytes of an expert, per layer.
    per_layer
        Whether the places of a layer stay with the layer.
    times
        When slots are taken and residents have done their work in the step that is over: a comer only
        replaces a resident that was done before. ``None`` asks nothing.

    Returns
    -------
    numpy.ndarray
        Who has a place afterwards, bool ``[layers, experts]``: as many of each size as before.
    """
    scores = checked_scores(scores, resident.shape)
    after = resident.copy()
    groups: dict[int, list[int]] = {}
    for layer, size in enumerate(sizes):
        groups.setdefault(layer if per_layer else size, []).append(layer)
    for layers in groups.values():
        _exchange(after, brought, scores, np.array(layers), times)
    return after


def checked_scores(scores: npt.ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    """What a rule said, as float64: whole numbers without a sign would order experts wrongly.

    Raises
    ------
    ValueError
        When they are no numbers, not finite or of another shape.
    """
    try:
        found: FloatArray = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"expected scores that are numbers, got {error}") from error
    if found.shape != shape:
        raise ValueError(f"expected scores of shape {shape}, got {found.shape}")
    if not np.isfinite(found).all():
        raise ValueError("expected finite scores, got NaN or infinity")
    return found


def _exchange(
    after: BoolArray, brought: BoolArray, scores: FloatArray, layers: IntArray, times: SwapTimes | None
) -> None:
    places = sorted((float(scores[key]), key) for key in _keys(after, layers))
    comers = [key for key in _keys(brought, layers) if not after[key]]
    # The best first: whoever comes later finds only better ones left.
    for key in sorted(comers, key=lambda key: (-scores[key], key)):
        for index, (worth, victim) in enumerate(places):
            if worth >= scores[key]:
                break
            if times is None or times.leave_ns[victim] <= times.taken_ns[key]:
                after[victim], after[key] = False, True
                del places[index]
                break


def _keys(which: BoolArray, layers: IntArray) -> list[tuple[int, int]]:
    rows, experts = which[layers].nonzero()
    return list(zip(layers[rows].tolist(), experts.tolist(), strict=True))
