"""Calibration on validation rows: of the tokens' probabilities, and of the batch event."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from prescope.predictor.calibration import batch_load, batch_share, fit_batch_event
from prescope.predictor.llapor.features import chosen
from prescope.predictor.llapor.network import SourceNetwork
from prescope.predictor.llapor.rows import SourceData

_BATCHES = (2, 4, 8, 16, 32, 64)
_BLOCK = 4096


def calibrate_source(
    network: SourceNetwork, data: SourceData, lengths: tuple[int, ...], *, seed: int
) -> npt.NDArray[np.float32]:
    """Fold a rising map of the logits into the network, then fit the batch corrections.

    Parameters
    ----------
    network
        Trained; its last layer is rescaled.
    data
        Validation rows.
    lengths
        Rows of each validation sequence: batches take one row of each of several.
    seed
        Which rows go together.

    Returns
    -------
    float32 ``[horizons, 2]``
        See `prescope.predictor.calibration.fit_batch_event`.
    """
    blocks = torch.split(torch.arange(len(data)), _BLOCK)
    with torch.no_grad():
        logits = torch.cat([network(data.features(at)) for at in blocks])
    truth = torch.cat([chosen(data.target_ids(at, network.horizons), network.experts) for at in blocks])
    maps = [fit_logit_map(logits[:, at], truth[:, at]) for at in range(network.horizons)]
    scale, offset = (torch.tensor([found[at] for found in maps]) for at in (0, 1))
    network.rescale(scale, offset)
    probability = torch.sigmoid(logits * scale[:, None] + offset[:, None]).numpy()
    groups = batches_of(lengths, seed=seed)
    happened = truth.numpy() > 0.5
    corrections = []
    for horizon in range(network.horizons):
        loads = [batch_load(probability[rows, horizon]) for rows in groups]
        shares = [np.full(network.experts, batch_share(len(rows))) for rows in groups]
        events = [happened[rows, horizon].any(axis=0) for rows in groups]
        corrections.append(fit_batch_event(*(np.concatenate(part) for part in (loads, shares, events))))
    return np.stack(corrections).astype(np.float32)


def fit_logit_map(logits: Tensor, targets: Tensor) -> tuple[float, float]:
    """Scale > 0 and offset of greatest likelihood, by Newton's method on two numbers."""
    flat, truth = logits.flatten().double(), targets.flatten().double()
    point = torch.tensor([1.0, 0.0], dtype=torch.float64)
    slopes = torch.stack([flat, torch.ones_like(flat)], dim=1)
    for _ in range(20):
        share = torch.sigmoid(slopes @ point)
        gradient = slopes.T @ (truth - share)
        curvature = (slopes * (share * (1 - share))[:, None]).T @ slopes + 1e-3 * torch.eye(2).double()
        step = torch.linalg.solve(curvature, gradient).clamp(-0.5, 0.5)
        point = point + step
        point[0].clamp_(min=0.05)
        if float(step.abs().max()) < 1e-7:
            break
    return float(point[0]), float(point[1])


def batches_of(lengths: tuple[int, ...], *, seed: int, rounds: int = 200) -> list[npt.NDArray[np.int64]]:
    """Rows that would be stepped together: one of each of several sequences, from anywhere in it.

    With fewer sequences than a batch has rows, several places of a sequence stand for sequences of their own.
    """
    rng = np.random.default_rng(seed)
    ends = np.cumsum(lengths)
    starts = ends - np.array(lengths)
    found = []
    for size in _BATCHES:
        for _ in range(rounds):
            picks = rng.permutation(np.resize(rng.permutation(len(lengths)), size))
            found.append(starts[picks] + rng.integers(0, np.array(lengths)[picks]))
    return found


def expected_and_load(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Expected tokens and `batch_load` of each horizon and expert, ``[horizons, experts]`` each."""
    probability = torch.sigmoid(logits)
    # The product of what is missed: past the smallest float an expert is needed for sure anyway.
    missed = torch.sub(1.0, probability).prod(dim=0)
    return probability.sum(dim=0), -missed.clamp_min_(1e-37).log_()
