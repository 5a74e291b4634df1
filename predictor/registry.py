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
    hidden_size
        Channels of the gating inputs, or ``None`` where there are none.
    fingerprint
        Identifies the gates' weights, as `prescope.instances.TraceMeta` has it; empty when not known.
    """

    layers: int
    experts: int
    top_k: int
    hidden_size: int | None = None
    fingerprint: str = ""
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


def _llapor(folder: str, context: PredictorContext) -> Predictor:
    from prescope.predictor.llapor import open_llapor

    return open_llapor(folder, context)


def _routing_only(folder: str, context: PredictorContext) -> Predictor:
    from prescope.predictor.routing_only.open import open_routing_only

    return open_routing_only(folder, context)


# Trained ones, named "kind:FOLDER"; they load what they need when asked for.
_TRAINED: dict[str, Callable[[str, PredictorContext], Predictor]] = {
    "llapor": _llapor,
    "ridge": _routing_only,
    "routing-only": _routing_only,
}


def predictors() -> tuple[str, ...]:
    """Names of the predictors that need no training."""
    return tuple(_FACTORIES)


def trained_predictors() -> tuple[str, ...]:
    """Kinds of trained predictors; one is named by its kind and its folder, ``"llapor:FOLDER"``."""
    return tuple(_TRAINED)


def make_predictor(name: str, context: PredictorContext) -> Predictor:
    """Build a predictor by name.

    Parameters
    ----------
    name
        One of `predictors`, or ``"kind:FOLDER"`` with one of `trained_predictors`.
    context
        What is known of the model.

    Raises
    ------
    ValueError
        When the name is unknown, the context lacks what the predictor needs, or a trained one belongs to
        another model.
    """
    kind, folder = require_predictor(name)
    return _TRAINED[kind](folder, context) if folder else _FACTORIES[kind](context)


def require_predictor(name: str) -> tuple[str, str]:
    """Kind and folder of a predictor by its name, the folder being empty where none was trained.

    Raises
    ------
    ValueError
        When there is no such predictor; whether there is such a folder is not asked.
    """
    kind, colon, folder = name.partition(":")
    if colon and folder and kind in _TRAINED:
        return kind, folder
    if name not in _FACTORIES:
        named = ", ".join([*predictors(), *(f"{kind}:FOLDER" for kind in trained_predictors())])
        raise ValueError(f"expected a predictor among {named}, got {name!r}")
    return name, ""
