"""A bound proved in whole numbers from a linear programme's approximate dual solution."""

from __future__ import annotations

import numpy as np

from prescope.formulation.demand import FloatArray
from prescope.formulation.models.linear_model import UNLIMITED, LinearModel

_PLACES = 40


def safe_bound(model: LinearModel, row_duals: FloatArray) -> int:
    """A lower bound on the objective over all solutions, integer or not.

    Any multipliers ``y`` of the rows (not negative where a row has only a lower bound) give
    ``c x >= y b + sum_j min((c - y A)_j x_j)`` over the columns' bounds. The duals are rounded to binary
    fractions and everything else is exact, so a solver's tolerances cost sharpness, never validity.

    Parameters
    ----------
    model
        All columns bounded.
    row_duals
        float64 ``[m]``, for minimisation: positive where the lower bound holds.

    Source
    ------
    Neumaier and Shcherbina, Safe bounds in linear and mixed-integer linear programming, Mathematical
    Programming 99 (2004).
    """
    scale = 1 << _PLACES
    multipliers = [round(float(dual) * scale) if np.isfinite(dual) else 0 for dual in row_duals]
    reduced = [int(cost) * scale for cost in model.objective]
    total = 0
    index, value, starts = model.index.tolist(), model.value.tolist(), model.starts.tolist()
    for row, multiplier in enumerate(multipliers):
        lower, upper = int(model.row_lower[row]), int(model.row_upper[row])
        if (multiplier > 0 and lower <= -UNLIMITED) or (multiplier < 0 and upper >= UNLIMITED):
            multiplier = 0
        if multiplier == 0:
            continue
        total += multiplier * (lower if multiplier > 0 else upper)
        for entry in range(starts[row], starts[row + 1]):
            reduced[index[entry]] -= multiplier * value[entry]
    for column, cost in enumerate(reduced):
        total += cost * int(model.lower[column] if cost > 0 else model.upper[column])
    # Objectives of plans are whole, so the bound may be rounded up.
    return max(0, -(-total // scale))
