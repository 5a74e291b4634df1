"""Losses: the load-balancing term of training, and the validation loss on held-out text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from prescope.tiny._batches import Tokens


def balance_loss(router_logits: Sequence[torch.Tensor], *, top_k: int) -> torch.Tensor:
    """Mean over layers of ``E * sum_e f_e P_e``; 1 when every expert gets the same share.

    ``f_e`` is the share of the routed slots that expert `e` got, ``P_e`` its mean probability
    (Switch Transformer, eq. 4-6). It is taken per layer: summed over layers first, a layer may collapse
    while the sum looks balanced.

    Parameters
    ----------
    router_logits : sequence of Tensor
        Per layer ``[tokens, experts]``, before the softmax.
    top_k : int
        Experts chosen per token.
    """
    import torch

    logits = torch.stack(tuple(router_logits)).float()
    layers, tokens, experts = logits.shape
    chosen = logits.topk(top_k, dim=-1).indices.reshape(layers, -1)
    share = torch.zeros(layers, experts).scatter_add_(1, chosen, torch.ones(layers, tokens * top_k))
    share /= tokens * top_k
    return (experts * share * logits.softmax(-1).mean(1)).sum(1).mean()


def validation_loss(model: Any, rows: Tokens, *, batch: int = 8) -> float:
    """Mean cross-entropy in nats per predicted token over ``rows`` [sequences, tokens]."""
    import torch

    total = 0.0
    was_training = model.training
    model.eval()
    with torch.inference_mode():
        for start in range(0, len(rows), batch):
            ids = torch.from_numpy(rows[start : start + batch])
            total += float(model(input_ids=ids, labels=ids, use_cache=False).loss) * len(ids)
    model.train(was_training)
    return total / len(rows)
