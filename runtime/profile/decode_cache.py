"""Attention caches of a realistic length, without generating what is in them."""

from __future__ import annotations

from typing import Any

import torch

# All sequences' caches together; a longer context is shortened, which the results say.
_MOST_BYTES = 2**30


class DecodeCache:
    """Random keys and values for batches of decoding sequences.

    Parameters
    ----------
    model
        A transformers model.
    sequences
        Largest batch.
    context
        Tokens in the cache of each sequence; fewer where the caches would take more than 1 GiB.
    seed
        Seed of the contents.
    """

    def __init__(self, model: Any, *, sequences: int, context: int, seed: int) -> None:
        self._config = model.config
        self._keyword = _keyword(model)
        shapes = self._shapes(model)
        token_bytes = sum(2 * keys.numel() * keys.element_size() for keys in shapes)
        self.context = min(context, max(1, _MOST_BYTES // (token_bytes * sequences))) if context else 0
        generator = torch.Generator().manual_seed(seed)
        self._pairs = [
            tuple(
                torch.randn(sequences, keys.shape[1], self.context, keys.shape[3], generator=generator).to(
                    keys.dtype
                )
                for _ in range(2)
            )
            for keys in shapes
        ]

    def arguments(self, sequences: int) -> dict[str, Any]:
        """Arguments of a forward pass that decodes one token of ``sequences`` sequences."""
        cache = self._empty()
        if self.context:
            for layer, (keys, values) in enumerate(self._pairs):
                cache.update(keys[:sequences], values[:sequences], layer)
        return {self._keyword: cache, "use_cache": True}

    def _shapes(self, model: Any) -> list[torch.Tensor]:
        """Keys of one token of one sequence, per decoder layer."""
        from prescope.runtime.plugin.moe_layers import moe_layers
        from prescope.runtime.profile.only_dense import only_dense

        cache = self._empty()
        with torch.no_grad(), only_dense(moe_layers(model)):
            model.base_model(
                input_ids=torch.zeros(1, 1, dtype=torch.int64), use_cache=True, **{self._keyword: cache}
            )
        return [layer.keys for layer in cache.layers]

    def _empty(self) -> Any:
        from transformers import DynamicCache

        return DynamicCache(config=self._config)


def _keyword(model: Any) -> str:
    """What the forward pass calls its cache: newer transformers shortened the name."""
    import inspect

    names = inspect.signature(type(model.base_model).forward).parameters
    return "cache" if "cache" in names else "past_key_values"
