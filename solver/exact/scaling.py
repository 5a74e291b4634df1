"""Linear models in floating point, with times in a unit that suits a solver's tolerances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prescope.formulation.demand import FloatArray, IntArray
from prescope.formulation.models.linear_model import UNLIMITED, BoolArray, LinearModel

# Solvers take differences below 1e-6 for nothing; a horizon of this many units keeps nanoseconds far above.
_HORIZON_UNITS = 1e5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScaledModel:
    """The arrays of a `LinearModel` with its times divided by ``unit_ns``.

    Parameters
    ----------
    unit_ns
        A power of ten.
    lower, upper, objective
        float64 ``[n]``; the objective is in units.
    row_lower, row_upper
        float64 ``[m]``, infinite where there is no limit.
    value
        float64, entry by entry as in the model.
    """

    unit_ns: float
    lower: FloatArray
    upper: FloatArray
    objective: FloatArray
    row_lower: FloatArray
    row_upper: FloatArray
    value: FloatArray

    def to_units(self, model: LinearModel, x: IntArray) -> FloatArray:
        """A solution of the model in the scaled one."""
        return np.where(model.time, x / self.unit_ns, x.astype(np.float64))

    def from_units(self, model: LinearModel, x: FloatArray) -> FloatArray:
        """A solution of the scaled model in the original."""
        return np.where(model.time, x * self.unit_ns, x)


def unit_of(model: LinearModel) -> float:
    """The power of ten, in nanoseconds, of which the longest time column has about 1e5."""
    longest = int(model.upper[model.time].max(initial=1))
    return float(10.0 ** round(np.log10(max(longest / _HORIZON_UNITS, 1.0))))


def scaled(model: LinearModel, unit_ns: float | None = None) -> ScaledModel:
    """Scale a model; the unit is its own unless given."""
    unit = unit_of(model) if unit_ns is None else unit_ns
    timed = model.time[model.index]
    # A row that speaks of times is divided by the unit, a choice among columns is not.
    in_time: BoolArray = np.logical_or.reduceat(timed, model.starts[:-1])
    divide = np.where(in_time, unit, 1.0)
    per_entry = np.repeat(divide, np.diff(model.starts))
    return ScaledModel(
        unit_ns=unit,
        lower=np.where(model.time, model.lower / unit, model.lower),
        upper=np.where(model.time, model.upper / unit, model.upper),
        objective=model.objective.astype(np.float64),
        row_lower=_limits(model.row_lower, divide),
        row_upper=_limits(model.row_upper, divide),
        value=model.value * np.where(timed, unit, 1.0) / per_entry,
    )


def _limits(limits: IntArray, divide: FloatArray) -> FloatArray:
    finite = limits / divide
    return np.where(limits >= UNLIMITED, np.inf, np.where(limits <= -UNLIMITED, -np.inf, finite))
