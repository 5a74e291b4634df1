"""Record what predictors say of the tiny model's coming layers while it decodes recorded text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from benchmarks.record_tiny_routing import SEQUENCES, record_tiny_routing
from prescope.formulation.demand import FloatArray
from prescope.instances import RoutingTrace, decode_batches, popularity, prefill
from prescope.instances.library_recipes.predicted import PROBABILITY_UNIT, TOKENS_UNIT
from prescope.instances.library_recipes.sources import STEPS_APART, TRAINING_SEQUENCES
from prescope.predictor.base import Predictor
from prescope.predictor.replay import replay

PREDICTORS = ("stale-gate", "previous-step", "popularity")
BATCHES = (1, 8, 32)
STEPS = 3
HORIZONS = 4


def record_tiny_predictions(path: Path, *, predictors: tuple[str, ...] = PREDICTORS) -> None:
    """Write predictions of every predictor, batch and recorded step.

    A predictor sees the prompts and every step before the one it speaks of, as it would at work. Its prior
    is the popularity in the training sequences.
    """
    import torch

    from prescope.predictor import PredictorContext, make_predictor
    from prescope.runtime.plugin.moe_layers import moe_layers
    from prescope.runtime.plugin.stale_router import StaleRouter
    from prescope.tiny import load_tiny

    torch.set_num_threads(1)
    trace = record_tiny_routing(hidden=True)
    shares = popularity(trace, rows=np.arange(int(trace.seq_offsets[TRAINING_SEQUENCES])))
    router = StaleRouter(moe_layers(load_tiny()[0]))
    cases, expected, probabilities = [], [], []
    for name in predictors:
        for batch in BATCHES:
            context = PredictorContext(
                layers=trace.layers,
                experts=trace.meta.experts,
                top_k=trace.meta.top_k,
                router=router,
                prior=shares,
            )
            for step, tokens, probability in predictions(make_predictor(name, context), trace, batch):
                cases.append({"predictor": name, "batch": batch, "step": step})
                expected.append(np.round(tokens / TOKENS_UNIT).astype(np.uint16))
                probabilities.append(np.round(probability / PROBABILITY_UNIT).astype(np.uint16))
    with open(path, "wb") as file:
        np.savez_compressed(
            file,
            expected_tokens=np.stack(expected),
            probabilities=np.stack(probabilities),
            meta=np.array(json.dumps({"cases": cases, "tiny_model": trace.meta.fingerprint})),
        )


def predictions(
    predictor: Predictor, trace: RoutingTrace, batch: int
) -> Iterator[tuple[int, FloatArray, FloatArray]]:
    """Yield step, expected tokens and probabilities ``[horizons, layers, experts]`` of the recorded steps."""
    sequences = range(TRAINING_SEQUENCES, SEQUENCES)
    prompts = islice(prefill(trace, batch, sequences=sequences), 1)
    steps = islice(decode_batches(trace, batch, sequences=sequences), 1 + STEPS_APART * (STEPS - 1))
    shape = (HORIZONS, trace.layers, trace.meta.experts)
    tokens, probability, decoded = np.zeros(shape), np.zeros(shape), -1
    for step, layer in replay(predictor, trace, [*prompts, *steps]):
        if layer == -1:
            decoded += 1
        for horizon in range(1, HORIZONS + 1):
            # Layers nearer to the start than the horizon are forecast before the first gate.
            targets = [layer + horizon] if layer >= 0 else range(horizon)
            for target in targets:
                if target >= trace.layers:
                    continue
                said = predictor.predict(layer, target - layer)
                tokens[horizon - 1, target] = said.expected_tokens
                probability[horizon - 1, target] = said.probability
        if layer == trace.layers - 1 and decoded >= 1 and step.step % STEPS_APART == 0:
            yield step.step, tokens.copy(), probability.copy()
