"""Predictions of a synthetic batch with the recall that predictors were measured to have."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from prescope.formulation import Demand, PredictedDemand

# Recall of the true top 4 by a small network per layer, 1, 2, 3 and 4 layers ahead, held-out text, tiny
# trained Qwen3-MoE. An assumption for other models: recall depends on model and text.
RECALL = (0.86, 0.83, 0.79, 0.76)


def predict(
    demand: Demand, popularity: npt.NDArray[np.float64], *, recall: tuple[float, ...], seed: int
) -> PredictedDemand:
    """Say of every layer what a predictor would, at each distance.

    Each of a layer's routing decisions is named right with the distance's recall, else a draw from the
    layer's popularity is named. The predictor knows its recall but not which names are right: it expects a
    name to come true with that probability and the rest to fall by popularity.

    Parameters
    ----------
    demand
        The truth.
    popularity
        Long-run popularity, ``[layers, experts]``, rows sum to one.
    recall
        By distance, 1 first.
    seed
        Of the errors; distances err independently.
    """
    rng = np.random.default_rng([seed, 20250923])
    shape = (len(recall), *demand.counts.shape)
    probabilities, expected = np.zeros(shape), np.zeros(shape)
    decisions = demand.counts.sum(axis=1, keepdims=True)
    for horizon, right in enumerate(recall):
        kept = rng.binomial(demand.counts, right)
        lost = decisions[:, 0] - kept.sum(axis=1)
        named = kept + np.stack(
            [rng.multinomial(number, row) for number, row in zip(lost, popularity, strict=True)]
        )
        expected[horizon] = right * named + (1 - right) * decisions * popularity
        idle = (1 - right) ** named * (1 - (1 - right) * popularity) ** decisions
        probabilities[horizon] = 1 - idle
    return PredictedDemand(
        # Unconditional expectations of whole tokens cannot be below the probability of one.
        probabilities=np.minimum(probabilities, expected),
        expected_tokens=expected,
        source=f"emulated predictor, recall {'/'.join(f'{value:g}' for value in recall)}",
    )
