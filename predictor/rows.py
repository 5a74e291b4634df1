"""Arithmetic on probabilities of single rows: forecasts of a batch, ids as arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from prescope.formulation.demand import FloatArray, IntArray
from prescope.formulation.forecast import Forecast
from prescope.predictor.calibration import batch_load

if TYPE_CHECKING:
    from torch import Tensor


def forecast_from_rows(probability: npt.NDArray[np.floating[Any]]) -> Forecast:
    """Forecast of rows that choose independently, from their probabilities ``[tokens, experts]``."""
    expected = probability.sum(axis=0, dtype=np.float64)
    needed = -np.expm1(-batch_load(probability))
    return Forecast(expected_tokens=expected, probability=np.minimum(needed, expected))


def ids_of(indices: Tensor) -> IntArray:
    """Chosen experts as int64 ``[tokens, top_k]``."""
    ids: IntArray = indices.detach().cpu().numpy().astype(np.int64, copy=False)
    return ids


def weights_of(weights: Tensor | None) -> npt.NDArray[np.float32] | None:
    """Routing weights as float32 ``[tokens, top_k]``."""
    return None if weights is None else weights.detach().float().cpu().numpy()


def chosen_rows(ids: IntArray, experts: int) -> FloatArray:
    """One where a row chose the expert, float64 ``[tokens, experts]``; ids below 0 are no choice."""
    rows = np.zeros((ids.shape[0], experts + 1))
    # Column -1 takes what is not recorded and is cut off.
    np.put_along_axis(rows, np.where(ids < 0, experts, ids), 1.0, axis=1)
    return rows[:, :experts]


def checked_prior(prior: FloatArray | None, layers: int, experts: int, top_k: int) -> FloatArray:
    """Starting shares ``[layers, experts]`` in [0, 1]; uniform when ``None``.

    Raises
    ------
    ValueError
        When the prior has another shape, a NaN or a negative share.
    """
    if prior is None:
        return np.full((layers, experts), top_k / experts)
    start = np.asarray(prior, dtype=np.float64)
    if start.shape != (layers, experts) or not np.isfinite(start).all() or start.min() < 0:
        raise ValueError(f"expected a finite prior >= 0 of shape {(layers, experts)}, got {start.shape}")
    return np.minimum(start, 1.0)
