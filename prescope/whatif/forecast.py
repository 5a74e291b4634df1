"""Forecasts of a predictor with a given recall, made from the truth."""

from __future__ import annotations

import numpy as np

from prescope.formulation.demand import FloatArray, IntArray

KEPT_PER_LAYER = 0.97
"""What is left of the recall with every further layer ahead: about what trained predictors lose."""

# Whoever is not named is less likely than who is.
_LESS = 0.95


def degraded(
    counts: IntArray, shares: FloatArray, *, batch: int, recall: float, horizons: int, seed: int
) -> tuple[FloatArray, FloatArray]:
    """What a predictor says that names a share of the needed experts and as many wrong ones for the rest.

    Of the experts that a layer needs, each is named with probability ``recall``, times `KEPT_PER_LAYER` for
    every layer of distance beyond the first; every one that is not is replaced by an expert without tokens,
    popular ones first, which is said to get its tokens. Who is not named ahead of the gate is not named
    earlier either. The probabilities are calibrated: a named expert is needed with the recall of its
    distance, and the others share what is missed by their popularity. What a step's tokens are is known from
    its beginning on only: of layers that are farther ahead than the step is long so far, the popularity is
    said. A recall of 1 says the truth at every distance, even then.

    Parameters
    ----------
    counts
        True tokens of layers in a row, those of many steps one after the other, int64 ``[T, E]``.
    shares
        Popularity, ``[L, E]`` with ``T`` a multiple of ``L``.
    batch
        Tokens per step.
    recall
        In (0, 1].
    horizons
        Layers ahead, at least 1.
    seed
        Of the draws.

    Returns
    -------
    probabilities, expected_tokens
        As of `prescope.formulation.PredictedDemand`, float64 ``[horizons, T, E]``.
    """
    total, experts = counts.shape
    shape = (horizons, total, experts)
    if recall >= 1.0:
        truth = np.broadcast_to((counts > 0).astype(np.float64), shape)
        return truth.copy(), np.broadcast_to(counts.astype(np.float64), shape).copy()
    random = np.random.default_rng(seed)
    needed = counts > 0
    luck = random.random(counts.shape)
    layers = shares.shape[0]
    popular = np.tile(np.clip(shares, 0.0, 1.0), (total // layers, 1))
    weight = np.maximum(popular, 1e-6)
    # Exponential keys: the order in which a draw without replacement by weight takes them.
    wrong_order = np.argsort(np.where(needed, np.inf, random.exponential(size=counts.shape) / weight), axis=1)
    missed_order = np.argsort(np.where(needed, -luck, np.inf), axis=1)
    probabilities, tokens = np.zeros(shape), np.zeros(shape)
    number = needed.sum(axis=1)
    rank = np.arange(experts)
    for ahead in range(horizons):
        kept = recall * KEPT_PER_LAYER**ahead
        named = needed & (luck < kept)
        # Nobody can be named wrongly where everybody is needed.
        missed = np.minimum(number - named.sum(axis=1), experts - number)
        swap = rank < missed[:, None]
        row, at = np.nonzero(swap)
        said = np.where(named, counts, 0)
        said[row, wrong_order[row, at]] = counts[row, missed_order[row, at]]
        chosen = said > 0
        missing = number * (1.0 - kept)
        chance = np.where(chosen, kept, _shared(missing, np.where(chosen, 0.0, weight), most=_LESS * kept))
        mean = counts.sum(axis=1) / np.maximum(number, 1)
        probabilities[ahead] = chance
        tokens[ahead] = chance * np.where(chosen, said, mean[:, None])
        early = np.arange(total) % layers <= ahead
        probabilities[ahead, early] = (1.0 - (1.0 - popular) ** batch)[early]
        tokens[ahead, early] = batch * popular[early]
    return probabilities, tokens


def _shared(total: FloatArray, weight: FloatArray, *, most: float) -> FloatArray:
    """Share each row's total by weight, at most ``most`` each; what that cuts off fills the others up."""
    share = total[:, None] * weight / np.maximum(weight.sum(axis=1), 1e-12)[:, None]
    cut = np.minimum(share, most)
    room = np.where(weight > 0, most - cut, 0.0)
    over = np.minimum((share - cut).sum(axis=1), room.sum(axis=1))
    filled: FloatArray = cut + over[:, None] * room / np.maximum(room.sum(axis=1), 1e-12)[:, None]
    return filled
