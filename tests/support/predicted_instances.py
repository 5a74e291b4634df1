"""Tiny instances with predictions that have nothing to do with their demand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from tiny_instances import make_instance, seeded

from prescope.formulation import Instance, PredictedDemand


def guesses(instance: Instance, seed: int, horizons: int) -> PredictedDemand:
    """Random predictions; about a third of the experts are ruled out."""
    random = np.random.default_rng(seed)
    shape = (horizons, *instance.demand.counts.shape)
    probability = random.random(shape) * (random.random(shape) < 0.7)
    return PredictedDemand(
        probabilities=probability, expected_tokens=probability * random.integers(1, 5, shape), source="guess"
    )


def predicted_instance(seed: int, horizons: int, **changes: Any) -> Instance:
    """A random instance with guesses; ``changes`` as of `tiny_instances.make_instance`."""
    instance = make_instance(seeded(seed), predictions=True, **changes)
    return replace(instance, predicted=guesses(instance, seed, horizons))
