"""HiGHS and SCIP through OR-Tools' MathOpt.

Traps hidden here: MathOpt hides every refused argument behind ``AttributeError: ... canonical_code`` (the
text is in the error's context); its HiGHS takes no ``threads``; its CP-SAT rounds continuous columns to a
grid, so it is not offered (`prescope.solver.exact.cp_sat_linear` states integers itself).
"""

from __future__ import annotations

from datetime import timedelta
from importlib import import_module
from typing import Any

import numpy as np

from prescope.formulation.demand import IntArray
from prescope.formulation.models.linear_model import LinearModel
from prescope.solver.exact.engine import (
    EngineAnswer,
    EngineError,
    EngineLimits,
    EngineStatus,
    ValueOf,
    trusted_bound,
)
from prescope.solver.exact.safe_bound import safe_bound
from prescope.solver.exact.scaling import scaled


def unmasked(error: BaseException) -> str:
    """What MathOpt meant to say."""
    if isinstance(error, AttributeError) and "canonical_code" in str(error) and error.__context__ is not None:
        return str(error.__context__)
    return str(error)


class MathOptSession:
    """One model in MathOpt; every solve starts afresh."""

    def __init__(self, model: LinearModel, solver: str) -> None:
        self._model, self._solver = model, solver

    def patch(self, model: LinearModel) -> bool:
        """MathOpt's HiGHS and SCIP take a new model each time."""
        return False

    def close(self) -> None:
        """Nothing is held."""

    def solve(
        self, limits: EngineLimits, *, start: IntArray | None = None, value_of: ValueOf | None = None
    ) -> EngineAnswer:
        """Solve the model."""
        mathopt: Any = import_module("ortools.math_opt.python.mathopt")
        model, scale = self._model, scaled(self._model)
        stated = mathopt.Model(name=model.name)
        columns = [
            stated.add_variable(lb=lower, ub=upper, is_integer=whole and not limits.relax, name=name)
            for name, lower, upper, whole in zip(
                model.columns, scale.lower, scale.upper, model.integer.tolist(), strict=True
            )
        ]
        rows = []
        index, value = model.index.tolist(), scale.value.tolist()
        for row, name in enumerate(model.rows):
            added = stated.add_linear_constraint(lb=scale.row_lower[row], ub=scale.row_upper[row], name=name)
            for entry in range(model.starts[row], model.starts[row + 1]):
                added.set_coefficient(columns[index[entry]], value[entry])
            rows.append(added)
        stated.minimize(
            sum(float(cost) * columns[column] for column, cost in enumerate(scale.objective) if cost)
        )
        in_tree = not limits.relax and bool(model.integer.any())
        parameters = mathopt.SolveParameters(random_seed=limits.seed)
        if in_tree:
            parameters.relative_gap_tolerance = limits.relative_gap
            parameters.node_limit = limits.nodes
        if limits.wall_ns is not None:
            parameters.time_limit = timedelta(microseconds=max(1, limits.wall_ns // 1000))
        hints = []
        if in_tree and start is not None:
            given = scale.to_units(model, start)
            hints = [mathopt.SolutionHint(variable_values=dict(zip(columns, given.tolist(), strict=True)))]
        # SCIP gives no duals, from which relaxations prove their bound.
        engine = getattr(mathopt.SolverType, self._solver if in_tree else "GLOP")
        try:
            result = mathopt.solve(
                stated,
                engine,
                params=parameters,
                model_params=mathopt.ModelSolveParameters(solution_hints=hints),
            )
        except (AttributeError, RuntimeError, ValueError) as error:
            raise EngineError(
                f"expected {self._solver} to take {model.name}, got: {unmasked(error)}"
            ) from error
        return self._answer(mathopt, result, columns, rows, in_tree)

    def _answer(
        self, mathopt: Any, result: Any, columns: list[Any], rows: list[Any], in_tree: bool
    ) -> EngineAnswer:
        model, scale = self._model, scaled(self._model)
        reason = mathopt.TerminationReason
        ended = result.termination.reason
        if ended not in (reason.OPTIMAL, reason.FEASIBLE, reason.NO_SOLUTION_FOUND):
            detail = f"{ended.name}: {result.termination.detail}"
            raise EngineError(f"expected {self._solver} to solve {model.name}, got {detail}")
        values = objective = bound = None
        if result.has_primal_feasible_solution():
            values = scale.from_units(model, np.array(result.variable_values(columns)))
            objective = result.objective_value() * scale.unit_ns
        dual = result.termination.objective_bounds.dual_bound
        if in_tree and np.isfinite(dual):
            bound = trusted_bound(dual * scale.unit_ns)
        elif not in_tree and result.has_dual_feasible_solution():
            timed = np.logical_or.reduceat(model.time[model.index], model.starts[:-1])
            bound = safe_bound(
                model, np.array(result.dual_values(rows)) * np.where(timed, 1.0, scale.unit_ns)
            )
        status = {
            reason.OPTIMAL: EngineStatus.OPTIMAL,
            reason.FEASIBLE: EngineStatus.FEASIBLE,
            reason.NO_SOLUTION_FOUND: EngineStatus.NOTHING,
        }[ended]
        return EngineAnswer(
            status=status,
            values=values,
            objective=objective,
            bound=bound,
            nodes=result.solve_stats.node_count if in_tree else None,
        )


class MathOptEngine:
    """One of MathOpt's solvers.

    Parameters
    ----------
    name
        Its name here.
    solver
        Its name in ``mathopt.SolverType``.
    """

    def __init__(self, name: str, solver: str) -> None:
        self.name, self._solver = name, solver

    def open(self, model: LinearModel) -> MathOptSession:
        """Hand it a model."""
        return MathOptSession(model, self._solver)
