"""Record the tiny model's routing on text it never saw: teacher forcing, one token stream per sequence."""

import hashlib
from pathlib import Path

import numpy as np

from prescope.instances import RoutingTrace, TraceMeta
from prescope.tiny import heldout_streams, load_tiny, tiny_model_path

SEQUENCES = 96
LENGTH = 64
PROMPT = 16
SEED = 0


def record_tiny_routing(path: Path | None = None) -> RoutingTrace:
    """Return the routing of 96 streams of 64 tokens; the first 16 count as the prompt.

    With teacher forcing every token is routed as it would be in decoding (attention is causal), so the later
    tokens count as decoded ones although they were computed in one pass.
    """
    import torch

    folder = path or tiny_model_path()
    torch.set_num_threads(1)
    model, _ = load_tiny(path=folder)
    streams = heldout_streams(SEQUENCES, length=LENGTH, seed=SEED, path=folder)
    experts, top_k = model.config.num_experts, model.config.num_experts_per_tok
    ids, weights = [], []
    with torch.inference_mode():
        for stream in streams:
            output = model(
                input_ids=torch.from_numpy(stream[None]), output_router_logits=True, use_cache=False
            )
            logits = torch.stack(output.router_logits, dim=1).float()
            best = torch.topk(torch.softmax(logits, dim=-1), top_k, dim=-1)
            share = best.values
            if model.config.norm_topk_prob:
                share = share / share.sum(dim=-1, keepdim=True)
            ids.append(best.indices.numpy().astype(np.int16))
            weights.append(share.numpy().astype(np.float16))
    tokens = len(streams) * LENGTH
    return RoutingTrace(
        topk_ids=np.concatenate(ids),
        topk_weights=np.concatenate(weights),
        seq_offsets=np.arange(0, tokens + 1, LENGTH),
        phase=np.tile((np.arange(LENGTH) >= PROMPT).astype(np.uint8), len(streams)),
        meta=TraceMeta(
            model="tiny-qwen3-moe",
            experts=experts,
            top_k=top_k,
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
