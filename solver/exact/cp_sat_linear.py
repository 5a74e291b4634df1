"""CP-SAT on a linear model: all columns whole numbers of nanoseconds, nothing rounded.

Every plan's times are whole, so the integer model still has all of them: its optimum is a lower bound if the
linear model's is, and a sharper one at that.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from prescope.formulation.demand import IntArray
from prescope.formulation.models.linear_model import UNLIMITED, LinearModel
from prescope.solver.exact.cp_sat_run import run_cp_sat
from prescope.solver.exact.engine import EngineAnswer, EngineError, EngineLimits, EngineStatus, ValueOf

_FREE = (1 << 63) - 1


def cp_sat_of_linear(model: LinearModel) -> Any:
    """The model as a ``CpModel``; rows keep their number and zeros their place."""
    from ortools.sat.python import cp_model

    stated = cp_model.CpModel()
    for name, lower, upper in zip(model.columns, model.lower, model.upper, strict=True):
        stated.new_int_var(int(lower), int(upper), name)
    index, starts = model.index.tolist(), model.starts.tolist()
    for row, name in enumerate(model.rows):
        # Written directly: the modelling layer sorts terms and drops zeros, which patches need in place.
        constraint = stated.proto.constraints.add()
        constraint.name = name
        columns = index[starts[row] : starts[row + 1]]
        constraint.linear.vars.extend(columns)
        constraint.linear.coeffs.extend([0] * len(columns))
        constraint.linear.domain.extend([0, 0])
    stated.minimize(stated.get_int_var_from_proto_index(int(model.objective.argmax())))
    _write(stated.proto, None, model)
    return stated


def _write(proto: Any, old: LinearModel | None, new: LinearModel) -> None:
    """Write the numbers that differ (all of them without ``old``)."""
    everything = old is None
    before = new if old is None else old
    changed = (new.lower != before.lower) | (new.upper != before.upper) | everything
    for column in np.flatnonzero(changed).tolist():
        domain = proto.variables[column].domain
        domain[0], domain[1] = int(new.lower[column]), int(new.upper[column])
    changed = (new.row_lower != before.row_lower) | (new.row_upper != before.row_upper) | everything
    for row in np.flatnonzero(changed).tolist():
        domain = proto.constraints[row].linear.domain
        lower, upper = int(new.row_lower[row]), int(new.row_upper[row])
        domain[0] = -_FREE - 1 if lower <= -UNLIMITED else lower
        domain[1] = _FREE if upper >= UNLIMITED else upper
    row_of = np.repeat(np.arange(len(new.rows)), np.diff(new.starts))
    for entry in np.flatnonzero((new.value != before.value) | everything).tolist():
        row = int(row_of[entry])
        proto.constraints[row].linear.coeffs[entry - int(new.starts[row])] = int(new.value[entry])


class CpSatLinearSession:
    """One linear model in CP-SAT."""

    def __init__(self, model: LinearModel) -> None:
        self._model = model
        self._stated = cp_sat_of_linear(model)

    @property
    def model(self) -> Any:
        """The ``CpModel``, to look at."""
        return self._stated

    def patch(self, model: LinearModel) -> bool:
        """Change the numbers that differ."""
        if not model.same_shape(self._model):
            return False
        _write(self._stated.proto, self._model, model)
        self._model = model
        return True

    def solve(
        self, limits: EngineLimits, *, start: IntArray | None = None, value_of: ValueOf | None = None
    ) -> EngineAnswer:
        """Solve it."""
        if limits.relax:
            raise EngineError("expected relax=False for cp-sat, which has no linear programme of its own")
        self._stated.clear_hints()
        if start is not None:
            hint = self._stated.proto.solution_hint
            hint.vars.extend(range(len(start)))
            hint.values.extend(start.tolist())
        run = run_cp_sat(
            self._stated, limits, hinted=start is not None, name=self._model.name, value_of=value_of
        )
        values = objective = None
        if run.found:
            values = np.array(run.solver.response_proto.solution, dtype=np.float64)
            objective = run.solver.objective_value
        return EngineAnswer(
            status=EngineStatus.OPTIMAL
            if run.optimal
            else (EngineStatus.FEASIBLE if run.found else EngineStatus.NOTHING),
            values=values,
            objective=objective,
            bound=run.bound,
            incumbents=run.incumbents,
            bounds=run.bounds,
            deterministic_time=float(run.solver.response_proto.deterministic_time),
            start_accepted=run.start_accepted,
        )

    def close(self) -> None:
        """Nothing is held."""


class CpSatLinearEngine:
    """CP-SAT on linear models."""

    name = "cp-sat"

    def open(self, model: LinearModel) -> CpSatLinearSession:
        """Hand it a model."""
        return CpSatLinearSession(model)
