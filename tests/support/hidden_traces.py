"""Small traces with gating inputs whose routing can be learnt."""

import numpy as np

from prescope.instances import Phase, RoutingTrace, TraceMeta
from prescope.predictor.llapor.settings import GroupSettings, LlaporSettings

LAYERS, EXPERTS, TOP_K, HIDDEN = 4, 6, 2, 8

SMALL = LlaporSettings(
    horizons=3,
    history=6,
    trend=4,
    epochs=3,
    batch_rows=64,
    outer=GroupSettings(kind="shallow", hidden=12, loss="balanced-focal"),
    middle=GroupSettings(kind="gated", hidden=12, dropout=0.1),
)


def hidden_trace(sequences=12, length=24, *, seed=0, shift=0.0, weights=True, tokens=True, prompt=1):
    """A random walk through the layers; every layer's gate is a fixed linear map of its gating input."""
    rng = np.random.default_rng(seed)
    fixed = np.random.default_rng(1)
    gates = fixed.standard_normal((LAYERS, HIDDEN, EXPERTS))
    mix = np.eye(HIDDEN) + 0.3 * fixed.standard_normal((LAYERS, HIDDEN, HIDDEN)) / HIDDEN**0.5
    vocabulary = fixed.standard_normal((16, HIDDEN))
    count = sequences * length
    names = rng.integers(0, 16, count)
    state = vocabulary[names] + 0.3 * rng.standard_normal((count, HIDDEN)) + shift
    hidden = np.zeros((count, LAYERS, HIDDEN), dtype=np.float16)
    ids = np.zeros((count, LAYERS, TOP_K), dtype=np.int16)
    scales = np.zeros((count, LAYERS, TOP_K), dtype=np.float32)
    for layer in range(LAYERS):
        state = state @ mix[layer]
        hidden[:, layer] = state
        logits = state @ gates[layer]
        ids[:, layer] = np.argsort(-logits, axis=1)[:, :TOP_K]
        picked = np.exp(np.take_along_axis(logits, ids[:, layer].astype(np.int64), axis=1))
        scales[:, layer] = picked / picked.sum(axis=1, keepdims=True)
    phase = np.full((sequences, length), Phase.DECODE, dtype=np.uint8)
    phase[:, :prompt] = Phase.PREFILL
    return RoutingTrace(
        topk_ids=ids,
        topk_weights=scales if weights else None,
        hidden=hidden,
        token_ids=names.astype(np.int32) if tokens else None,
        seq_offsets=np.arange(sequences + 1, dtype=np.int64) * length,
        phase=phase.reshape(-1),
        meta=TraceMeta(model="walk", experts=EXPERTS, top_k=TOP_K, fingerprint="00c0ffee", source="a walk"),
    )
