"""HiGHS through highspy: models changed in place, basis and solution kept.

Traps hidden here: another number of threads in the same process makes ``run`` answer ``kError`` with
objective 0 and no exception (the global scheduler is reset first), every call's status is checked, and the
constructor writes to stdout before it can be silenced.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import Any

import numpy as np

from prescope.formulation.demand import FloatArray, IntArray
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
from prescope.solver.exact.scaling import ScaledModel, scaled, unit_of
from prescope.solver.trajectory import Incumbent, ProvedBound, improving_bounds, improving_incumbents

_threads_in_use: int | None = None


def load_highspy() -> Any:
    """The package, or an error that names the extra.

    Raises
    ------
    ValueError
        When it is not installed.
    """
    try:
        import highspy
    except ImportError:
        raise ValueError(
            "expected highspy to be installed for the engine 'highs', got no such package; "
            "pip install 'prescope[bench]', or use the engine 'math-opt-highs'"
        ) from None
    return highspy


def silent_highs() -> Any:
    """A new HiGHS object that has not written to stdout and will not."""

    class Silent(load_highspy().Highs):  # type: ignore[misc]
        def enableCallbacks(self) -> None:
            # Called by the constructor; it writes a banner unless output is off by then.
            self.setOptionValue("output_flag", False)
            super().enableCallbacks()

    return Silent()


def to_highs_lp(model: LinearModel, scale: ScaledModel) -> Any:
    """The model as a ``HighsLp``."""
    highspy = load_highspy()
    lp = highspy.HighsLp()
    lp.model_name_ = model.name
    lp.num_col_, lp.num_row_ = len(model.columns), len(model.rows)
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = scale.objective, scale.lower, scale.upper
    lp.row_lower_, lp.row_upper_ = scale.row_lower, scale.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_ = model.starts, model.index
    lp.a_matrix_.value_ = scale.value
    kind = highspy.HighsVarType
    lp.integrality_ = [kind.kInteger if whole else kind.kContinuous for whole in model.integer.tolist()]
    lp.col_names_, lp.row_names_ = list(model.columns), list(model.rows)
    return lp


class HighsSession:
    """One model in one HiGHS object."""

    def __init__(self, model: LinearModel) -> None:
        self._highspy = load_highspy()
        self._highs = silent_highs()
        self._model = model
        self._scale = scaled(model)
        self._check(self._highs.passModel(to_highs_lp(model, self._scale)), "passModel")

    @property
    def highs(self) -> Any:
        """The HiGHS object, to look at."""
        return self._highs

    def patch(self, model: LinearModel) -> bool:
        """Change bounds and coefficients that differ; basis and solution stay."""
        old, before = self._model, self._scale
        if not model.same_shape(old):
            return False
        # The same unit while it suits: another one would change every number.
        keep = abs(np.log10(unit_of(model) / before.unit_ns)) < 1.5
        after = scaled(model, before.unit_ns if keep else None)
        changed = np.flatnonzero((after.lower != before.lower) | (after.upper != before.upper))
        if len(changed):
            self._check(
                self._highs.changeColsBounds(
                    len(changed), changed.astype(np.int32), after.lower[changed], after.upper[changed]
                ),
                "changeColsBounds",
            )
        changed = np.flatnonzero(
            (after.row_lower != before.row_lower) | (after.row_upper != before.row_upper)
        )
        for row in changed.tolist():
            self._check(
                self._highs.changeRowBounds(row, after.row_lower[row], after.row_upper[row]),
                "changeRowBounds",
            )
        row_of = np.repeat(np.arange(len(model.rows)), np.diff(model.starts))
        for entry in np.flatnonzero(after.value != before.value).tolist():
            self._check(
                self._highs.changeCoeff(int(row_of[entry]), int(model.index[entry]), after.value[entry]),
                "changeCoeff",
            )
        self._model, self._scale = model, after
        return True

    def solve(
        self, limits: EngineLimits, *, start: IntArray | None = None, value_of: ValueOf | None = None
    ) -> EngineAnswer:
        """Solve the model."""
        global _threads_in_use
        highs, model, scale = self._highs, self._model, self._scale
        if _threads_in_use not in (None, limits.workers):
            self._highspy.Highs.resetGlobalScheduler(True)
        _threads_in_use = limits.workers
        options = {
            "threads": limits.workers,
            "random_seed": limits.seed,
            "mip_rel_gap": limits.relative_gap,
            "mip_abs_gap": 0.0,
            "solve_relaxation": limits.relax,
            "time_limit": float("inf") if limits.wall_ns is None else limits.wall_ns / 1e9,
            "mip_max_nodes": 2**31 - 1 if limits.nodes is None else limits.nodes,
        }
        for option, value in options.items():
            self._check(highs.setOptionValue(option, value), f"option {option}={value}")
        begin = perf_counter_ns()
        incumbents: list[Incumbent] = []
        bounds: list[ProvedBound] = []
        in_tree = not limits.relax and bool(model.integer.any())
        listeners = []
        if in_tree:
            if start is not None:
                solution = self._highspy.HighsSolution()
                solution.col_value = scale.to_units(model, start)
                self._check(highs.setSolution(solution), "setSolution")

            def improved(event: Any) -> None:
                now = perf_counter_ns() - begin
                found = round(event.data_out.objective_function_value * scale.unit_ns)
                if value_of is not None:
                    found = value_of(scale.from_units(model, np.array(event.data_out.mip_solution)))
                incumbents.append(Incumbent(time_ns=now, makespan_ns=found))

            def logged(event: Any) -> None:
                bound = event.data_out.mip_dual_bound * scale.unit_ns
                if np.isfinite(bound):
                    bounds.append(
                        ProvedBound(time_ns=perf_counter_ns() - begin, lower_bound_ns=trusted_bound(bound))
                    )

            listeners = [(highs.cbMipImprovingSolution, improved), (highs.cbMipLogging, logged)]
            for event, listener in listeners:
                event.subscribe(listener)
        try:
            self._check(highs.run(), "run")
        finally:
            for event, listener in listeners:
                event.unsubscribe(listener)
        status = highs.getModelStatus()
        info, known = highs.getInfo(), self._highspy.HighsModelStatus
        feasible = info.primal_solution_status == 2
        stopped = (known.kTimeLimit, known.kSolutionLimit, known.kIterationLimit, known.kInterrupt)
        if status != known.kOptimal and status not in stopped:
            raise EngineError(
                f"expected HiGHS to solve {model.name}, got {highs.modelStatusToString(status)}"
            )
        end = perf_counter_ns() - begin
        values: FloatArray | None = None
        objective = None
        solution = highs.getSolution()
        if feasible:
            values = scale.from_units(model, np.array(solution.col_value))
            objective = info.objective_function_value * scale.unit_ns
        bound = None
        if in_tree and np.isfinite(info.mip_dual_bound):
            bound = trusted_bound(info.mip_dual_bound * scale.unit_ns)
            bounds.append(ProvedBound(time_ns=end, lower_bound_ns=bound))
        elif not in_tree and solution.dual_valid:
            # Rows of times and their columns are scaled alike, so the duals of time rows have no unit; those
            # of other rows are in units.
            timed: FloatArray = np.logical_or.reduceat(model.time[model.index], model.starts[:-1])
            bound = safe_bound(model, np.array(solution.row_dual) * np.where(timed, 1.0, scale.unit_ns))
        return EngineAnswer(
            status=EngineStatus.OPTIMAL
            if status == known.kOptimal
            else (EngineStatus.FEASIBLE if feasible else EngineStatus.NOTHING),
            values=values,
            objective=objective,
            bound=bound,
            incumbents=improving_incumbents(incumbents),
            bounds=improving_bounds(bounds),
            nodes=int(info.mip_node_count) if in_tree else None,
        )

    def close(self) -> None:
        """Drop the model."""
        self._highs.clear()

    def _check(self, status: Any, what: str) -> None:
        if status == self._highspy.HighsStatus.kError:
            raise EngineError(f"expected HiGHS to accept {what} of {self._model.name}, got {status.name}")


class HighsEngine:
    """HiGHS through highspy."""

    name = "highs"

    def open(self, model: LinearModel) -> HighsSession:
        """Hand it a model."""
        return HighsSession(model)
