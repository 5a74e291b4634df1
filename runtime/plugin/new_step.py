"""The control of a new step: by a gate policy, or along a solver's plan where demand is known."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from prescope.formulation import Demand, Instance
from prescope.predictor import Predictor
from prescope.runtime.control import CostTables, PlannedStep, StepControl, online_step
from prescope.runtime.control.pool import RowPool
from prescope.runtime.control.pooled_compiled import pooled_step
from prescope.runtime.plugin.settings import EngineSettings

BoolArray = npt.NDArray[np.bool_]


class StepFactory(Protocol):
    """Makes the control of one step after another."""

    def new_step(
        self, *, name: str, tokens: int, link_ready_ns: int, resident: BoolArray | None
    ) -> StepControl:
        """Control of a step with ``tokens`` real tokens; the predictor's step has begun.

        Parameters
        ----------
        name
            For messages.
        tokens
            Real tokens.
        link_ready_ns
            As for `prescope.formulation.Instance`.
        resident
            Who is resident in this step, bool ``[layers, experts]``; ``None`` where nobody ever moves.
        """
        ...

    def forget(self) -> None:
        """After a failed step: believe nothing about what it touched."""


def prediction_costs(predictor: Predictor, layers: int, tokens: int) -> tuple[int, ...]:
    """Host time of the forecasts after each gate; empty where the predictor names none."""
    cost_ns = getattr(predictor, "cost_ns", None)
    costs = () if cost_ns is None else tuple(int(cost_ns(layer, tokens)) for layer in range(layers))
    return costs if any(costs) else ()


def rows_of(resident: BoolArray) -> tuple[tuple[int, ...], ...]:
    """Residents per layer, ascending."""
    return tuple(tuple(row.nonzero()[0].tolist()) for row in resident)


class PinnedStepFactory:
    """Steps with residents and slots; what is in a slot at the end of a step is forgotten.

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
        self._resident = np.zeros((len(settings.residents), settings.experts), dtype=np.bool_)
        for layer, row in enumerate(settings.residents):
            self._resident[layer, list(row)] = True

    def forget(self) -> None:
        """Nothing outlives a step; see `StepFactory.forget`."""

    def new_step(
        self, *, name: str, tokens: int, link_ready_ns: int, resident: BoolArray | None
    ) -> StepControl:
        """See `StepFactory.new_step`.

        Raises
        ------
        RuntimeError
            When a policy plans whole steps but the demand is not known, or the solver finds no plan.
        """
        settings = self._settings
        if settings.gate_policy is not None:
            return online_step(
                costs=settings.costs,
                tables=self._tables,
                resident=self._resident if resident is None else resident,
                slots=settings.slots,
                lookahead=settings.lookahead,
                policy=settings.gate_policy,
                forecast=self._predictor.predict,
                tokens=tokens,
                tier=settings.tier,
                host_computes=settings.host_computes,
                link_ready_ns=link_ready_ns,
                prediction_ns=prediction_costs(self._predictor, len(settings.residents), tokens),
            )
        known = self._predictor.known_counts()
        if known is None:
            raise RuntimeError(f"expected known demand for {settings.policy!r}, got none")
        from prescope.solver import Limits, get_method

        instance = Instance(
            name=name,
            costs=settings.costs,
            demand=Demand(counts=known, batch_tokens=tokens),
            residents=settings.residents if resident is None else rows_of(resident),
            slots=settings.slots,
            lookahead=settings.lookahead,
            tier=settings.tier,
            host_computes=settings.host_computes,
            link_ready_ns=link_ready_ns,
        )
        # The method alone: `solve` would also prove a bound, which nobody asks for between two tokens.
        draft = get_method(settings.policy).plan(instance, limits=Limits(), seed=settings.seed, hint=None)
        if draft.plan is None:
            raise RuntimeError(f"expected a plan from {settings.policy!r}, got none")
        return PlannedStep(instance=instance, plan=draft.plan)


class PooledStepFactory:
    """Steps over a pool of rows whose contents outlive them.

    Parameters
    ----------
    settings
        How the engine runs; its slots are the rows.
    predictor
        Forecasts.
    pool
        The rows.
    """

    def __init__(self, settings: EngineSettings, predictor: Predictor, pool: RowPool) -> None:
        self._settings, self._predictor, self._pool = settings, predictor, pool
        self._tables = CostTables(settings.costs)

    def forget(self) -> None:
        """The rows may hold anything; see `StepFactory.forget`."""
        self._pool.forget()

    def new_step(
        self, *, name: str, tokens: int, link_ready_ns: int, resident: BoolArray | None
    ) -> StepControl:
        """See `StepFactory.new_step`."""
        settings = self._settings
        if settings.gate_policy is None:
            raise RuntimeError(f"expected a gate policy over a pool of rows, got method {settings.policy!r}")
        return pooled_step(
            costs=settings.costs,
            tables=self._tables,
            pool=self._pool,
            lookahead=settings.lookahead,
            policy=settings.gate_policy,
            forecast=self._predictor.predict,
            tokens=tokens,
            experts=settings.experts,
            prediction_ns=prediction_costs(self._predictor, settings.costs.layers, tokens),
        )
