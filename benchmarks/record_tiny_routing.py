"""Record the tiny model's routing on text it never saw: teacher forcing, one token stream per sequence."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from prescope.instances import RoutingTrace, TraceMeta
from prescope.tiny import heldout_streams, load_tiny, tiny_model_path

SEQUENCES = 96
LENGTH = 64
PROMPT = 16
SEED = 0


def record_tiny_routing(
    path: Path | None = None, *, sequences: int = SEQUENCES, hidden: bool = False
) -> RoutingTrace:
    """Return the routing of the first of 96 streams of 64 tokens; 16 of each count as the prompt.

    ``hidden`` keeps the gating inputs too: 8 layers of 128 float16, 2 KiB a token.

    With teacher forcing every token is routed as it would be in decoding (attention is causal), so the later
    tokens count as decoded ones although they were computed in one pass.
    """
    import torch

    folder = path or tiny_model_path()
    torch.set_num_threads(1)
    model, _ = load_tiny(path=folder)
    streams = heldout_streams(SEQUENCES, length=LENGTH, seed=SEED, path=folder)[:sequences]
    chosen: list[Any] = []

    def keep(_module: Any, inputs: tuple[Any, ...], output: tuple[Any, Any, Any]) -> None:
        chosen.append((*output[1:], inputs[0].reshape(-1, inputs[0].shape[-1])))

    hooks = [layer.mlp.gate.register_forward_hook(keep) for layer in model.model.layers]
    ids, weights, states = [], [], []
    try:
        with torch.inference_mode():
            for stream in streams:
                chosen.clear()
                model(input_ids=torch.from_numpy(stream[None]), use_cache=False)
                weights.append(torch.stack([scores for scores, _, _ in chosen], dim=1).numpy())
                ids.append(torch.stack([experts for _, experts, _ in chosen], dim=1).numpy())
                if hidden:
                    states.append(torch.stack([seen.half() for _, _, seen in chosen], dim=1).numpy())
    finally:
        for hook in hooks:
            hook.remove()
    tokens = len(streams) * LENGTH
    return RoutingTrace(
        topk_ids=np.concatenate(ids).astype(np.int16),
        topk_weights=np.concatenate(weights).astype(np.float16),
        hidden=np.concatenate(states) if hidden else None,
        token_ids=np.concatenate(streams).astype(np.int32),
        seq_offsets=np.arange(0, tokens + 1, LENGTH),
        phase=np.tile((np.arange(LENGTH) >= PROMPT).astype(np.uint8), len(streams)),
        meta=TraceMeta(
            model="tiny-qwen3-moe",
            experts=model.config.num_experts,
            top_k=model.config.num_experts_per_tok,
            fingerprint=digest(folder / "model.safetensors"),
            tokenizer=digest(folder / "tokenizer.json"),
            source=f"benchmarks/record_tiny_routing.py, {SEQUENCES} held-out excerpts of the standard "
            f"library's sources, seed {SEED}",
            notes=f"teacher forcing; the first {PROMPT} of {LENGTH} tokens count as prefill, "
            "the rest as decode",
        ),
    )


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
