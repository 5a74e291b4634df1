"""Layer groups - near the input, middle, near the output - found from what a trace shows."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from torch import Tensor

from prescope.formulation.demand import FloatArray
from prescope.predictor.llapor.features import chosen

Group = Literal["near-input", "middle", "near-output"]

_MOST_ROWS = 8192


def layer_profile(hidden: list[Tensor], ids: Tensor, experts: int) -> FloatArray:
    """How closely each layer is followed by the next one.

    Parameters
    ----------
    hidden
        Gating inputs of each layer, ``[rows, hidden]``.
    ids
        Chosen experts, int64 ``[rows, layers, top_k]``.
    experts
        Experts per layer.

    Returns
    -------
    float64 ``[layers - 1, 2]``
        Of layers ``l`` and ``l + 1``: the mean absolute correlation between an expert's choice and its best
        correlated expert in the next layer, and the mean cosine of their centred gating inputs.
    """
    step = max(1, len(ids) // _MOST_ROWS)
    found = []
    picks = [_standard(chosen(ids[::step, layer], experts)) for layer in range(ids.shape[1])]
    for layer in range(ids.shape[1] - 1):
        cross = picks[layer].T @ picks[layer + 1] / len(picks[layer])
        here, there = (_centred(hidden[at][::step].float()) for at in (layer, layer + 1))
        cosine = torch.cosine_similarity(here, there, dim=1).mean()
        found.append([float(cross.abs().amax(dim=1).mean()), float(cosine)])
    return np.array(found, dtype=np.float64).reshape(-1, 2)


def layer_groups(profile: FloatArray) -> tuple[Group, ...]:
    """The group of every layer that has a next one: three runs within which the profile varies least.

    Parameters
    ----------
    profile
        As `layer_profile` measures it, ``[layers - 1, any]``; fewer than three layers are all middle.
    """
    count = len(profile)
    if count < 3:
        return tuple("middle" for _ in range(count))
    spread = profile.std(axis=0)
    scaled = (profile - profile.mean(axis=0)) / np.where(spread > 0, spread, 1.0)

    def within(start: int, end: int) -> float:
        run = scaled[start:end]
        return float(((run - run.mean(axis=0)) ** 2).sum())

    cuts = [(first, second) for first in range(1, count - 1) for second in range(first + 1, count)]
    first, second = min(cuts, key=lambda at: within(0, at[0]) + within(*at) + within(at[1], count))
    runs: tuple[tuple[Group, int], ...] = (
        ("near-input", first),
        ("middle", second - first),
        ("near-output", count - second),
    )
    return tuple(group for group, length in runs for _ in range(length))


def _centred(rows: Tensor) -> Tensor:
    return rows - rows.mean(dim=0)


def _standard(rows: Tensor) -> Tensor:
    centred = _centred(rows)
    return centred / centred.pow(2).mean(dim=0).sqrt().clamp_min(1e-6)
