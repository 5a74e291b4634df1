"""Routing in which layers depend on each other, so that there is something to learn."""

from __future__ import annotations

import numpy as np

from prescope.instances import RoutingTrace, TraceMeta


def linked_trace(
    seed: int = 0,
    *,
    sequences: int = 8,
    tokens: int = 40,
    prompt: int = 0,
    layers: int = 4,
    experts: int = 6,
    top_k: int = 2,
    noise: float = 0.2,
    weights: bool = True,
    token_ids: bool = False,
) -> RoutingTrace:
    """Each layer takes a fixed permutation of the layer before it, except for a share of ``noise``."""
    rng = np.random.default_rng(seed)
    # The model stays the same whatever the seed of the text is.
    orders = np.random.default_rng(99).permuted(np.tile(np.arange(experts), (layers, 1)), axis=1)
    total = sequences * (prompt + tokens)
    free = rng.permuted(np.tile(np.arange(experts), (total, layers, 1)), axis=2)[..., :top_k]
    ids = free.copy()
    for layer in range(1, layers):
        linked = rng.random(total) >= noise
        ids[linked, layer] = orders[layer][ids[linked, layer - 1]]
    phase = np.tile([0] * prompt + [1] * tokens, sequences).astype(np.uint8)
    return RoutingTrace(
        topk_ids=ids.astype(np.int16),
        topk_weights=rng.random(ids.shape).astype(np.float32) if weights else None,
        seq_offsets=np.arange(sequences + 1) * (prompt + tokens),
        phase=phase,
        token_ids=ids[:, 0, 0].astype(np.int32) if token_ids else None,
        meta=TraceMeta(model="linked", experts=experts, top_k=top_k, fingerprint="f00d"),
    )
