"""Hypothesis strategy for traces that a log can hold."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from prescope.instances import RoutingTrace, TraceMeta

texts = st.text(max_size=20) | st.sampled_from(["", " x", '"', "a: b", "\n", "# layer=0", "ä"])


@st.composite
def logged_traces(draw: st.DrawFn) -> RoutingTrace:
    """Any trace without gating inputs: with unrecorded entries, padding, each optional array or not."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    layers, experts = draw(st.integers(1, 4)), draw(st.sampled_from([1, 2, 5, 300]))
    top_k = draw(st.integers(1, min(experts, 3)))
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=5))
    tokens = sum(lengths)
    ids = np.argsort(rng.random((tokens, layers, experts)), axis=2)[..., :top_k]
    ids[rng.random(ids.shape) < draw(st.sampled_from([0.0, 0.3, 1.0]))] = -1
    if draw(st.booleans()):
        phase = np.concatenate([np.arange(length) > length // 2 for length in lengths]).astype(np.uint8)
    else:
        phase = rng.integers(0, 2, tokens)
    kind = draw(st.sampled_from([np.float16, np.float32]))
    extra: dict[str, Any] = {
        "topk_weights": (rng.standard_normal(ids.shape) * 10.0 ** rng.integers(-7, 4)).astype(kind),
        "padding": rng.random(tokens) < 0.3,
        "token_ids": rng.integers(-1, 2**31 - 1, tokens),
        "expert_bytes": rng.integers(1, 2**50, layers),
        "dense_bytes": rng.integers(0, 2**50, layers),
    }
    return RoutingTrace(
        topk_ids=ids,
        seq_offsets=np.cumsum([0, *lengths]),
        phase=phase,
        meta=TraceMeta(
            model=draw(texts),
            experts=experts,
            top_k=top_k,
            fingerprint=draw(texts),
            tokenizer=draw(texts),
            source=draw(texts),
            notes=draw(texts),
        ),
        **{name: value for name, value in extra.items() if draw(st.booleans())},
    )
