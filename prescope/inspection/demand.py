"""Demand as it was predicted against demand as it came."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prescope.inspection.view import StepView


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandRow:
    """One layer whose demand was forecast at the gate before it.

    Parameters
    ----------
    layer
        Its number.
    activated, expected_activated
        Experts that got tokens, and the sum of their probabilities.
    recall
        Of the experts that got tokens, the share among as many most likely ones; ``None`` without any.
    tokens_error
        Sum of ``|expected - true|`` tokens over all experts, by the true tokens; ``None`` without any.
    brier
        Mean squared error of the probabilities.
    """

    layer: int
    activated: int
    expected_activated: float
    recall: float | None
    tokens_error: float | None
    brier: float


def demand_rows(step: StepView) -> tuple[DemandRow, ...]:
    """Judge a step's forecasts, layer by layer; empty where there are none or no demand to judge them by."""
    if step.instance is None:
        return ()
    rows = []
    for layer, forecast in enumerate(step.forecasts):
        if forecast is None:
            continue
        counts = step.instance.demand.counts[layer]
        active = counts > 0
        number, tokens = int(active.sum()), int(counts.sum())
        off = float(np.abs(forecast.expected_tokens - counts).sum())
        likeliest = np.argsort(-forecast.probability, kind="stable")[:number]
        rows.append(
            DemandRow(
                layer=layer,
                activated=number,
                expected_activated=float(forecast.probability.sum()),
                recall=float(active[likeliest].mean()) if number else None,
                tokens_error=off / tokens if tokens else None,
                brier=float(((forecast.probability - active) ** 2).mean()),
            )
        )
    return tuple(rows)
