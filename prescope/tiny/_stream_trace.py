"""The tiny model's routing over token streams, as a trace with gating inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from prescope.instances import RoutingTrace
    from prescope.tiny._batches import Tokens


def stream_trace(model: Any, rows: Tokens, *, source: str) -> RoutingTrace:
    """Teacher-force the model on streams and keep what its gates saw and chose.

    Every stream becomes a sequence: its first token a prompt, the others as if they had been decoded.

    Parameters
    ----------
    model
        Of a family that `prescope.attach` supports.
    rows
        Token ids, int64 ``[streams, tokens]``.
    source
        Where the text is from.
    """
    import torch

    from prescope.instances import Phase, RoutingTrace
    from prescope.runtime.plugin.moe_layers import moe_layers
    from prescope.runtime.plugin.recording import trace_meta

    layers = moe_layers(model)
    streams, length = rows.shape
    shape = (rows.size, len(layers), int(layers[0].router.top_k))
    hidden = np.empty((*shape[:2], int(layers[0].router.weight.shape[1])), dtype=np.float16)
    ids, weights = np.empty(shape, dtype=np.int16), np.empty(shape, dtype=np.float32)
    place = 0

    def keeper(index: int) -> Any:
        def keep(module: Any, given: Any, output: Any) -> None:
            seen = given[0].detach().reshape(-1, hidden.shape[2])
            at = slice(place, place + len(seen))
            hidden[at, index] = seen.half().numpy()
            weights[at, index] = output[1].detach().float().numpy()
            ids[at, index] = output[2].detach().numpy()

        return keep

    hooks = [layer.router.register_forward_hook(keeper(index)) for index, layer in enumerate(layers)]
    try:
        with torch.inference_mode():
            for start in range(0, streams, 16):
                block = torch.from_numpy(rows[start : start + 16])
                model.base_model(input_ids=block, use_cache=False)
                place += block.numel()
    finally:
        for hook in hooks:
            hook.remove()
    phase = np.full((streams, length), Phase.DECODE, dtype=np.uint8)
    phase[:, 0] = Phase.PREFILL
    return RoutingTrace(
        topk_ids=ids,
        topk_weights=weights,
        hidden=hidden,
        token_ids=rows.reshape(-1).astype(np.int32),
        seq_offsets=np.arange(streams + 1, dtype=np.int64) * length,
        phase=phase.reshape(-1),
        meta=trace_meta(
            model, layers, experts=model.config.num_experts, source=source, notes="teacher-forced"
        ),
    )


def training_trace(*, streams: int = 320, length: int = 256, seed: int = 0) -> RoutingTrace:
    """Streams of the files that the shipped tiny model was trained on, from this Python's library."""
    return _stdlib_trace(streams, length, seed, heldout=False)


def heldout_trace(*, streams: int = 64, length: int = 256, seed: int = 0) -> RoutingTrace:
    """Streams of the files that the shipped tiny model never saw, from this Python's library."""
    return _stdlib_trace(streams, length, seed, heldout=True)


def _stdlib_trace(streams: int, length: int, seed: int, *, heldout: bool) -> RoutingTrace:
    from prescope.tiny import load_tiny, tiny_model_path
    from prescope.tiny._streams import stdlib_streams

    rows = stdlib_streams(tiny_model_path(), count=streams, length=length, seed=seed, heldout=heldout)
    kind = "held-out" if heldout else "training"
    return stream_trace(load_tiny()[0], rows, source=f"{kind} files of Python's standard library")
