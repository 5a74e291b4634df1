"""``prescope instances build --steps``: one horizon from recorded routing, with a predictor's forecasts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prescope.formulation import PredictedDemand
    from prescope.instances import BatchStep, RoutingTrace

PREDICTED_HORIZONS = 4
"""Layers ahead that a horizon keeps forecasts of."""


def build_horizon_file(
    trace_path: Path,
    output: Path,
    preset: str,
    batch: int,
    *,
    steps: int,
    slots: int,
    lookahead: int | None,
    resident_fraction: float,
    history: int | None,
    predictor: str | None,
) -> dict[str, str]:
    """Build and write a horizon; returns its name, path and checksum.

    Raises
    ------
    ValueError
        When the trace has too few or too short sequences, or the predictor is unknown.
    """
    from dataclasses import replace

    from prescope.instances import build_horizon, horizon_steps, read_trace, write_horizon

    trace = read_trace(trace_path)
    past = range(min(history if history is not None else trace.sequences // 2, trace.sequences))
    file = build_horizon(
        trace,
        preset,
        batch,
        steps=steps,
        slots=slots,
        lookahead=lookahead,
        resident_fraction=resident_fraction,
        history=past,
    )
    if predictor is not None:
        rows = horizon_steps(trace, batch, steps, range(len(past), trace.sequences))
        said = _forecasts(trace, rows, predictor, past)
        file = replace(file, horizon=replace(file.horizon, predicted=said))
    output.mkdir(parents=True, exist_ok=True)
    path = output / f"{stem(file.horizon.name)}.json.gz"
    return {"name": file.horizon.name, "path": str(path), "sha256": write_horizon(path, file)}


def stem(name: str) -> str:
    """A name as the first part of a file's."""
    return "".join(letter if letter.isalnum() or letter in "-_.@" else "-" for letter in name)


def _forecasts(
    trace: RoutingTrace, steps: Sequence[BatchStep], name: str, past: Sequence[int]
) -> tuple[PredictedDemand, ...]:
    """What a predictor says of every layer at the gates before it, up to four layers ahead."""
    import numpy as np

    from prescope.formulation import PredictedDemand
    from prescope.instances import popularity
    from prescope.predictor.registry import PredictorContext, make_predictor
    from prescope.predictor.replay import replay

    layers, experts = trace.layers, trace.meta.experts
    known = [np.arange(trace.seq_offsets[one], trace.seq_offsets[one + 1]) for one in past]
    context = PredictorContext(
        layers=layers,
        experts=experts,
        top_k=trace.meta.top_k,
        fingerprint=trace.meta.fingerprint,
        prior=popularity(trace, rows=np.concatenate(known)) if known else None,
    )
    predictor = make_predictor(name, context)
    horizons = min(PREDICTED_HORIZONS, layers)
    chance = np.zeros((len(steps), horizons, layers, experts))
    tokens = np.zeros_like(chance)
    number = -1
    for _, layer in replay(predictor, trace, steps):
        number += layer < 0
        for horizon in range(1, min(horizons, layers - 1 - layer) + 1):
            said = predictor.predict(layer, horizon)
            chance[number, horizon - 1, layer + horizon] = said.probability
            tokens[number, horizon - 1, layer + horizon] = said.expected_tokens
    return tuple(
        PredictedDemand(
            probabilities=np.clip(chance[step], 0.0, 1.0).round(4),
            expected_tokens=np.maximum(tokens[step], 0.0).round(3),
            source=f"{name}, replayed over the trace",
        )
        for step in range(len(steps))
    )
