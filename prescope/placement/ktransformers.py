"""A hot list in the shape of KTransformers' masks.

Its mask is a boolean table of layers and experts; with strategy ``frequency`` it makes one itself from a
table of counts, ``logical_count``, that it reads from a torch file. Both tables have a row for every layer of
the model, dense ones included.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from prescope.placement.hot_list import HotList


def ktransformers_document(hot: HotList, *, dense_layers: int = 0) -> dict[str, Any]:
    """Mask, counts and hot lists, ready for JSON.

    Parameters
    ----------
    hot
        The placement of the MoE layers.
    dense_layers
        Layers without experts before the first one with experts; they get empty rows.

    Raises
    ------
    ValueError
        When ``dense_layers`` is negative.
    """
    if dense_layers < 0:
        raise ValueError(f"expected a number of dense layers >= 0, got {dense_layers}")
    pad = ((dense_layers, 0), (0, 0))
    mask = np.pad(hot.mask, pad)
    return {
        "gpu_experts_mask": mask.tolist(),
        "logical_count": np.pad(hot.activations, pad).tolist(),
        "hot_experts": [np.flatnonzero(row).tolist() for row in mask],
        "num_gpu_experts": hot.experts,
    }


def ktransformers_losses(hot: HotList) -> list[str]:
    """What KTransformers cannot be told, in words."""
    per_layer = hot.mask.sum(axis=1)
    losses = [
        "experts stay where they are: no prefetch, no copy on demand; those off the device run on the CPU "
        f"({1 - hot.covered:.1%} of the recorded activations)",
    ]
    if per_layer.min() != per_layer.max():
        losses.append(
            "layers with different numbers of experts on the device need the mask itself; versions whose "
            "strategy frequency takes the same number in every layer make another one from logical_count"
        )
    if per_layer.min() == 0:
        losses.append("layers without any expert on the device run on the CPU alone")
    return losses
