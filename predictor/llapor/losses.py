"""Training losses: plain, and one for layers that use few of their experts often."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from prescope.predictor.llapor.settings import Loss

# From the published recipe: focusing exponent, and the range of the weights.
_FOCUS, _LEAST, _MOST = 2.0, 0.1, 10.0


def balance(share: Tensor) -> Tensor:
    """Weights of experts by inverse frequency, mean 1, from their share of tokens ``[..., experts]``."""
    weights = (share.mean(dim=-1, keepdim=True) / share.clamp_min(1e-9)).clamp(_LEAST, _MOST)
    return weights / weights.mean(dim=-1, keepdim=True)


def loss_of(kind: Loss, logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Mean over rows and horizons of the sum over experts.

    Parameters
    ----------
    kind
        ``"bce"`` ignores the weights.
    logits, targets
        ``[rows, horizons, experts]``.
    weights
        As `balance` gives them, ``[horizons, experts]``.
    """
    each = functional.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    if kind == "balanced-focal":
        right = torch.where(targets > 0.5, torch.sigmoid(logits), torch.sigmoid(-logits))
        each = each * weights * (1.0 - right) ** _FOCUS
    return each.sum(dim=-1).mean()
