"""Arithmetic shared by the predictors: token counts, shares and batch probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prescope.formulation.demand import FloatArray, IntArray
from prescope.formulation.forecast import Forecast

if TYPE_CHECKING:
    from torch import Tensor


def expert_counts(indices: Tensor, experts: int) -> IntArray:
    """Tokens of each expert, int64 ``[experts]``, from chosen ids of shape ``[tokens, top_k]``."""
    flat = indices.detach().cpu().numpy().reshape(-1)
    return np.bincount(flat, minlength=experts).astype(np.int64)


def forecast_from_shares(shares: FloatArray, tokens: int) -> Forecast:
    """Forecast for ``tokens`` independent tokens that each choose an expert with probability ``shares``."""
    clipped = np.clip(shares, 0.0, 1.0)
    return Forecast(expected_tokens=clipped * tokens, probability=1.0 - (1.0 - clipped) ** tokens)


def check_target(layer: int, horizon: int, layers: int) -> int:
    """The layer forecast, checked.

    Raises
    ------
    ValueError
        When it is not in ``[layer + 1, layers - 1]``.
    """
    target = layer + horizon
    if horizon < 1 or not 0 <= target < layers:
        raise ValueError(
            f"expected a horizon >= 1 reaching a layer in [0, {layers - 1}], got {layer} + {horizon}"
        )
    return target
