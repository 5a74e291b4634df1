"""The rows of features that a source's network sees, the same in training and while running."""

from __future__ import annotations

import torch
from torch import Tensor


def selection_columns(ids: Tensor, weights: Tensor | None, experts: int, *, complete: bool = False) -> Tensor:
    """What a gate chose: one-hot sums and routing weights, float32 ``[rows, 2 * experts]``.

    Both are scaled to about unit variance, the weights by their share of the row's total, so that models
    that normalise them and models that do not look the same. Ids below 0 are no choice; ``complete`` says
    that there are none.
    """
    rows, top_k = ids.shape
    usual = top_k / experts
    size = max(usual * (1.0 - usual), 1e-3) ** 0.5
    # The last column takes what was not recorded and is cut off.
    columns = torch.zeros(rows, 2 * experts + 1)
    missing = None if complete else ids < 0
    columns.scatter_(1, ids if missing is None else ids.masked_fill(missing, 2 * experts), 1.0 / size)
    if weights is not None:
        scales = weights.float()
        share = scales * (top_k / size) / scales.sum(dim=1, keepdim=True).clamp_min(1e-12)
        shifted = ids + experts
        columns.scatter_(1, shifted if missing is None else shifted.masked_fill_(missing, 2 * experts), share)
    return columns[:, :-1]


def past_columns(history: Tensor, trend: Tensor, known: Tensor, *, gain: Tensor) -> Tensor:
    """What a row's sequence showed before: history, moving average, whether both are known.

    Parameters
    ----------
    history, trend
        Of each row's previous token, ``[rows, history]`` and ``[rows, trend]``.
    known
        One where they are known, ``[rows, 1]``.
    gain
        Brings the moving average to unit size, ``[trend]``.
    """
    return torch.cat([history * known, trend * gain * known, known], dim=1)


def source_rows(main: Tensor, rest: Tensor, past: Tensor) -> Tensor:
    """Join the columns that a source's network sees.

    Parameters
    ----------
    main
        Components of the gating input, or of the token before the first gate, ``[rows, components]``.
    rest
        `selection_columns`, or whether the token is known, ``[rows, any]``.
    past
        `past_columns`.
    """
    return torch.cat([main, rest, past], dim=1)


def chosen(ids: Tensor, experts: int) -> Tensor:
    """One where an expert was chosen, float32 ``[..., experts]``, from ids ``[..., top_k]``; -1 is none."""
    columns = torch.zeros(*ids.shape[:-1], experts + 1)
    columns.scatter_(-1, torch.where(ids < 0, experts, ids), 1.0)
    return columns[..., :-1]
