"""Gives a random-weight model the routing of a real one: uneven use, and reuse between tokens.

Random routers choose by the token at hand alone and use all experts alike. Here each layer's router becomes a
random projection with a preference for what changes slowly from token to token (attention's average of what
came before is in the hidden state too), plus a fixed preference for some experts. Both strengths are found
by bisection on real token streams until reuse and entropy are those wanted, layer after layer with the
sharpened layers below. Embeddings are scaled to unit size with a common part, as trained ones have, so that
there is something to carry the fixed preference; nothing else changes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.disk_fused import PARTS
from benchmarks.disk_routing import Array, RoutingFigures, figures, one_hot
from prescope.runtime.plugin import moe_layers
from prescope.runtime.plugin.load import build_from_checkpoint
from prescope.runtime.plugin.load.expert_store import open_store

_DIRECTIONS = 192
_LOGIT_STD = 2.0


def sharpen(
    folder: Path, streams: Array, target: RoutingFigures, *, seed: int, say: Callable[[str], None]
) -> Array:
    """Rewrite embeddings and routers of a checkpoint in place; return the routing of the streams.

    Parameters
    ----------
    folder
        A checkpoint of `benchmarks.disk_model`.
    streams
        Token ids, ``[streams, tokens]``.
    target
        What the routing shall look like; its layers are spread over the model's.
    seed
        Of the random projections.
    say
        Told about the progress.

    Returns
    -------
    Array
        Bool ``[streams, tokens, layers, experts]``.
    """
    model, checkpoint = build_from_checkpoint(folder)
    count = len(moe_layers(model))
    embedding = model.get_input_embeddings().weight
    _scale_embedding(embedding, seed)
    _overwrite(checkpoint.tensor("model.embed_tokens.weight"), embedding)
    entropies, reuses = (_spread(values, count) for values in (target.entropy, target.reuse))

    def before_router(module: Any, args: tuple[Tensor, ...], index: int) -> None:
        say(f"layer {index + 1} of {count}")
        weight = _router(
            args[0].reshape(*streams.shape, -1).float().numpy(),
            module.weight.shape[0],
            module.top_k,
            entropy=float(entropies[index]),
            reuse=float(reuses[index]),
            rng=np.random.default_rng((seed, index)),
        )
        module.weight.data = torch.from_numpy(weight).to(module.weight.dtype)
        _overwrite(checkpoint.tensor(f"model.layers.{index}.mlp.gate.weight"), module.weight)

    return _forward(model, checkpoint, streams, before_router)


def routing_of(folder: Path, streams: Array) -> Array:
    """Routing of streams by a checkpoint as it is, bool ``[streams, tokens, layers, experts]``."""
    model, checkpoint = build_from_checkpoint(folder)
    return _forward(model, checkpoint, streams, lambda module, args, index: None)


def _forward(model: Any, checkpoint: Any, streams: Array, before_router: Callable[..., None]) -> Array:
    """One pass with the experts of one layer at a time in memory."""
    layers = moe_layers(model)
    routing: list[Array] = []
    with open_store(model, checkpoint) as store:

        def after_router(module: Any, args: Any, output: Any) -> None:
            routing.append(one_hot(output[2].reshape(*streams.shape, -1).numpy(), module.weight.shape[0]))

        def before_experts(module: Any, args: Any, index: int) -> None:
            rows = [store.views(index, store.load_row(index, expert)) for expert in range(store.experts)]
            for part in PARTS:
                stacked = torch.stack([row[part] for row in rows])
                module.register_parameter(part, nn.Parameter(stacked, requires_grad=False))

        def after_experts(module: Any, args: Any, output: Any) -> None:
            for part in PARTS:
                module.register_parameter(part, nn.Parameter(getattr(module, part).to("meta")))

        for index, layer in enumerate(layers):
            layer.router.register_forward_pre_hook(partial(before_router, index=index))
            layer.router.register_forward_hook(after_router)
            layer.experts.register_forward_pre_hook(partial(before_experts, index=index))
            layer.experts.register_forward_hook(after_experts)
        with torch.no_grad():
            model.base_model(input_ids=torch.from_numpy(streams), use_cache=False)
    return np.stack(routing, axis=2)


def _starts(streams: Array) -> Array:
    return np.arange(streams.shape[0] + 1) * streams.shape[1]


def routing_figures(chosen: Array) -> RoutingFigures:
    """Figures of a routing bool ``[streams, tokens, layers, experts]``."""
    return figures(chosen.reshape(-1, *chosen.shape[2:]), _starts(chosen[:, :, 0, 0]))


def _spread(values: Array, count: int) -> Array:
    """As many of the values as there are layers, evenly spread."""
    places = np.linspace(0, values.shape[0] - 1, count)
    return np.interp(places, np.arange(values.shape[0]), values)


def _scale_embedding(embedding: Tensor, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    common = torch.randn(embedding.shape[1], generator=generator)
    scaled = embedding.data.float()
    scaled = scaled / scaled.square().mean().sqrt()
    embedding.data = (scaled + 0.5 * common).to(embedding.dtype)


def _router(
    states: Array, experts: int, top_k: int, *, entropy: float, reuse: float, rng: np.random.Generator
) -> Array:
    """Router weights ``[experts, hidden]`` with the wanted entropy and reuse on ``states``."""
    streams, tokens, hidden = states.shape
    flat = states.reshape(-1, hidden)
    mean = flat.mean(axis=0)
    centred = flat - mean
    torch.manual_seed(0)
    _, sizes, vectors = torch.pca_lowrank(torch.from_numpy(centred), q=_DIRECTIONS, center=False, niter=2)
    whiten = (vectors / sizes * np.sqrt(flat.shape[0])).numpy()
    white = (centred @ whiten).reshape(streams, tokens, -1)
    later, earlier = (part.reshape(-1, white.shape[2]) for part in (white[:, 1:], white[:, :-1]))
    persistence, turn = np.linalg.eigh((later.T @ earlier + earlier.T @ later) / (2 * later.shape[0]))
    # The slowest eighth carries over; the rest is the token at hand.
    slow = np.arange(persistence.shape[0]) >= persistence.shape[0] * 7 // 8
    drawn = rng.standard_normal((experts, persistence.shape[0])).astype(np.float32)
    drawn[:, slow] /= np.sqrt(slow.sum())
    drawn[:, ~slow] /= np.sqrt((~slow).sum())
    favour = rng.standard_normal(experts).astype(np.float32)
    favour -= favour.mean()
    basis = whiten @ turn
    features = (centred @ basis).reshape(streams, tokens, -1)
    lasting, passing = features[..., slow] @ drawn[:, slow].T, features[..., ~slow] @ drawn[:, ~slow].T

    def measured(share: float, bias: float) -> tuple[float, float]:
        logits = np.sqrt(share) * lasting + np.sqrt(1.0 - share) * passing + bias * favour
        chosen = one_hot(np.argpartition(-logits, top_k, axis=-1)[..., :top_k], experts)
        found = figures(chosen.reshape(-1, 1, experts), np.arange(streams + 1) * tokens)
        return float(found.reuse[0]), float(found.entropy[0])

    share, bias = 0.5, 0.5
    for _ in range(4):
        share = _bisect(lambda value, bias=bias: measured(value, bias)[0] < reuse, 0.0, 1.0)
        bias = _bisect(lambda value, share=share: measured(share, value)[1] > entropy, 0.0, 4.0)
    weight = (drawn * np.where(slow, np.sqrt(share), np.sqrt(1.0 - share))) @ basis.T
    # What the fixed preference rides on: the mean, as far as the projection does not see it already.
    weight += np.outer(bias * favour - weight @ mean, mean) / (mean @ mean)
    logits = flat @ weight.T
    return np.asarray(weight * (_LOGIT_STD / logits.std()), dtype=np.float32)


def _bisect(too_small: Callable[[float], bool], low: float, high: float) -> float:
    for _ in range(8):
        middle = (low + high) / 2
        if too_small(middle):
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _overwrite(entry: Any, tensor: Tensor) -> None:
    """Put a tensor's bytes where the checkpoint has them, past the page cache in the end."""
    data = tensor.detach().contiguous().view(torch.uint8).numpy().tobytes()
    if len(data) != entry.size_bytes:
        raise ValueError(f"expected {entry.size_bytes} bytes for {entry.name}, got {len(data)}")
    with open(entry.file, "r+b") as stream:
        stream.seek(entry.offset_bytes)
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
