"""Small routing traces, made with a seed."""

from __future__ import annotations

import numpy as np

from prescope.instances import RoutingTrace, TraceMeta


def example_trace(
    seed: int = 0,
    *,
    lengths: tuple[tuple[int, int], ...] = ((3, 4), (2, 1), (1, 6)),
    layers: int = 3,
    experts: int = 7,
    top_k: int = 2,
    everything: bool = True,
) -> RoutingTrace:
    """Sequences of (prefill, decode) tokens, routed uniformly; ``everything`` fills the optional arrays."""
    rng = np.random.default_rng(seed)
    tokens = sum(a + b for a, b in lengths)
    ids = rng.permuted(np.tile(np.arange(experts), (tokens, layers, 1)), axis=2)[..., :top_k]
    phase = np.concatenate([[0] * a + [1] * b for a, b in lengths]).astype(np.uint8)
    meta = TraceMeta(
        model="test", experts=experts, top_k=top_k, fingerprint="f", tokenizer="t", source="s", notes="n"
    )
    extra = {
        "topk_weights": rng.random((tokens, layers, top_k)).astype(np.float16),
        "padding": np.zeros(tokens, dtype=bool),
        "hidden": rng.random((tokens, layers, 4)).astype(np.float16),
        "token_ids": rng.integers(0, 2**31 - 1, tokens, dtype=np.int32),
        "expert_bytes": np.arange(1, layers + 1) * 100,
        "dense_bytes": np.arange(layers) * 10,
    }
    return RoutingTrace(
        topk_ids=ids.astype(np.int16),
        seq_offsets=np.cumsum([0, *(a + b for a, b in lengths)]),
        phase=phase,
        meta=meta,
        **(extra if everything else {}),  # type: ignore[arg-type]
    )


ARRAYS = (
    "topk_ids",
    "seq_offsets",
    "phase",
    "topk_weights",
    "padding",
    "hidden",
    "token_ids",
    "expert_bytes",
    "dense_bytes",
)


def same_trace(a: RoutingTrace, b: RoutingTrace) -> bool:
    """Whether two traces hold the same."""
    if a.meta != b.meta:
        return False
    for name in ARRAYS:
        left, right = getattr(a, name), getattr(b, name)
        if (left is None) != (right is None):
            return False
        if left is not None and (left.dtype != right.dtype or not np.array_equal(left, right)):
            return False
    return True
