"""The control of a new step: by a gate policy, or along a solver's plan where demand is known."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from prescope.formulation import Demand, Instance
from prescope.predictor import Predictor
from prescope.runtime.control import CostTables, OnlineStep, PlannedStep, StepControl
from prescope.runtime.plugin.settings import EngineSettings


class StepFactory:
    """Makes the control of one step after another.

    Parameters
    ----------
    settings
        How the engine runs.
    predictor
        Forecasts, or known counts.
    """

    def __init__(self, settings: EngineSettings, predictor: Predictor) -> None:
        self._settings, self._predictor = settings, predictor
        self._tables = CostTables(settings.costs)

    def new_step(
        self, *, name: str, tokens: int, resident: npt.NDArray[np.bool_], link_ready_ns: int
    ) -> StepControl:
        """Control of a step with ``tokens`` real tokens; the predictor's step has begun.

        Raises
        ------
        RuntimeError
            When a policy plans whole steps but the demand is not known, or the solver finds no plan.
        """
        settings = self._settings
        if settings.gate_policy is not None:
            return OnlineStep(
                costs=settings.costs,
                tables=self._tables,
                resident=resident,
                slots=settings.slots,
                lookahead=settings.lookahead,
                policy=settings.gate_policy,
                forecast=self._predictor.predict,
                tokens=tokens,
                tier=settings.tier,
                host_computes=settings.host_computes,
                link_ready_ns=link_ready_ns,
            )
        known = self._predictor.known_counts()
        if known is None:
            raise RuntimeError(f"expected known demand for {settings.policy!r}, got none")
        from prescope.solver import solve

        instance = Instance(
            name=name,
            costs=settings.costs,
            demand=Demand(counts=known, batch_tokens=tokens),
            residents=settings.residents,
            slots=settings.slots,
            lookahead=settings.lookahead,
            tier=settings.tier,
            host_computes=settings.host_computes,
            link_ready_ns=link_ready_ns,
        )
        result = solve(instance, method=settings.policy, seed=settings.seed)
        if result.plan is None:
            raise RuntimeError(f"expected a plan from {settings.policy!r}, got {result.status}")
        return PlannedStep(instance=instance, plan=result.plan)
