"""Predictors by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prescope.formulation.demand import FloatArray, IntArray
from prescope.predictor.base import Predictor
from prescope.predictor.moving_average import MovingAverage
from prescope.predictor.oracle import Oracle
from prescope.predictor.popularity import Popularity
from prescope.predictor.previous_step import PreviousStep
from prescope.predictor.stale_gate import StaleGate
from prescope.predictor.token_table import TokenTable

if TYPE_CHECKING:
    from prescope.predictor.stale_gate import StaleRouter


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictorContext:
    """What the host of a predictor knows of its model.

    Parameters
    ----------
    layers, experts, top_k
        Shape of the model.
    router
        Stale router (see `StaleGate`), or ``None`` where there is no model.
    prior
        Share of each expert, float ``[layers, experts]``, or ``None``.
    steps
        Recorded counts of each step for the oracle, or ``None``.
    """

    layers: int
    experts: int
    top_k: int
    router: StaleRouter | None = None
    prior: FloatArray | None = None
    steps: Sequence[IntArray] | None = None


def _popularity(context: PredictorContext) -> Predictor:
    return Popularity(
        layers=context.layers, experts=context.experts, top_k=context.top_k, prior=context.prior
    )


def _previous_step(context: PredictorContext) -> Predictor:
    return PreviousStep(layers=context.layers, experts=context.experts, top_k=context.top_k)


def _moving_average(context: PredictorContext) -> Predictor:
    return MovingAverage(
        layers=context.layers, experts=context.experts, top_k=context.top_k, prior=context.prior
    )


def _token_table(context: PredictorContext) -> Predictor:
    return TokenTable(
        layers=context.layers, experts=context.experts, top_k=context.top_k, prior=context.prior
    )


def _stale_gate(context: PredictorContext) -> Predictor:
    if context.router is None:
        raise ValueError("expected a model whose gates the predictor 'stale-gate' can apply, got none")
    return StaleGate(
        layers=context.layers,
        experts=context.experts,
        top_k=context.top_k,
        router=context.router,
        prior=context.prior,
    )


def _oracle(context: PredictorContext) -> Predictor:
    if context.steps is None:
        raise ValueError("expected a recorded pass for the predictor 'oracle', got none")
    return Oracle(steps=context.steps)


_FACTORIES: dict[str, Callable[[PredictorContext], Predictor]] = {
    "moving-average": _moving_average,
    "oracle": _oracle,
    "popularity": _popularity,
    "previous-step": _previous_step,
    "stale-gate": _stale_gate,
    "token-table": _token_table,
}


def predictors() -> tuple[str, ...]:
    """Names of the predictors."""
    return tuple(_FACTORIES)


def make_predictor(name: str, context: PredictorContext) -> Predictor:
    """Build a predictor by name.

    Raises
    ------
    ValueError
        When the name is unknown, or the context lacks what the predictor needs.
    """
    if name not in _FACTORIES:
        raise ValueError(f"expected a predictor among {', '.join(predictors())}, got {name!r}")
    return _FACTORIES[name](context)
