"""Hooks into transformers: the experts registry, the forward pass and ``generate``."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from prescope.runtime.plugin.moe_layers import AttachError, MoeLayer, tag, tagged, untag
from prescope.runtime.plugin.rows import ForwardCall

IMPLEMENTATION = "prescope"


class ForwardListener(Protocol):
    """What the hooks call."""

    def on_forward(self, call: ForwardCall) -> None:
        """A forward pass begins."""

    def on_experts(
        self, layer: int, module: nn.Module, hidden: Tensor, indices: Tensor, weights: Tensor
    ) -> Tensor:
        """A layer's experts are called; returns their combined output."""
        ...

    def on_forward_end(self) -> None:
        """The forward pass ended, normally or not."""

    def on_generate(self, end_ids: tuple[int, ...]) -> None:
        """``generate`` begins; ``end_ids`` are the tokens after which a row is finished."""

    def on_generate_end(self) -> None:
        """``generate`` ended, normally or not."""


# What modules without an engine do when they share the config of an attached model, by the config's id;
# the config itself is kept so that no other can be given the same id.
_implementation_before: dict[int, tuple[Any, str | None]] = {}


def experts_forward(module: nn.Module, hidden: Tensor, indices: Tensor, weights: Tensor) -> Tensor:
    """The registered implementation: hands a layer's experts to the engine of its model."""
    mark = tagged(module)
    if mark is not None:
        layer, listener = mark
        return listener.on_experts(layer, module, hidden, indices, weights)  # type: ignore[attr-defined,no-any-return]
    from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

    stock = type(module).forward.__wrapped__  # type: ignore[attr-defined]
    _, before = _implementation_before.get(id(module.config), (None, "eager"))
    implementation = ALL_EXPERTS_FUNCTIONS.get_interface(before, stock)
    result: Tensor = implementation(module, hidden, indices, weights)
    return result


class Hooks:
    """All changes to a model; `remove` undoes every one of them.

    Parameters
    ----------
    model
        The model.
    layers
        Its MoE layers.
    listener
        Who is called.
    """

    def __init__(self, model: Any, layers: tuple[MoeLayer, ...], listener: ForwardListener) -> None:
        from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

        ALL_EXPERTS_FUNCTIONS.register(IMPLEMENTATION, experts_forward)
        self._model, self._layers = model, layers
        self._undo: list[Callable[[], None]] = []
        try:
            for index, layer in enumerate(layers):
                tag(layer, index, listener)
                self._undo.append(lambda layer=layer: untag(layer))  # type: ignore[misc]
                for register in (
                    layer.experts.register_state_dict_pre_hook,
                    layer.experts.register_load_state_dict_pre_hook,
                ):
                    self._undo.append(register(_refuse_state).remove)
            self._select()
            base = model.base_model
            before = base.register_forward_pre_hook(
                lambda module, args, kwargs: listener.on_forward(_call(args, kwargs)), with_kwargs=True
            )
            self._undo.append(before.remove)
            after = base.register_forward_hook(
                lambda module, args, output: listener.on_forward_end(), always_call=True
            )
            self._undo.append(after.remove)
            self._wrap_generate(listener)
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        """Undo everything; further calls do nothing."""
        while self._undo:
            self._undo.pop()()

    def _select(self) -> None:
        configs = {id(layer.experts.config): layer.experts.config for layer in self._layers}
        for key, config in configs.items():
            if key in _implementation_before:
                raise AttachError(
                    "expected a model with a config of its own, got one that shares it with an attached "
                    "model: detach that one, or load this one anew"
                )
            _implementation_before[key] = config, config._experts_implementation
            self._undo.append(lambda config=config, key=key: _deselect(config, key))  # type: ignore[misc]
            # Set on the config that the modules read: set_experts_implementation skips subclasses that live
            # in files of their own without saying so.
            config._experts_implementation = IMPLEMENTATION

    def _wrap_generate(self, listener: ForwardListener) -> None:
        stock = getattr(self._model, "generate", None)
        if stock is None:
            return
        model = self._model

        @wraps(stock)
        def generate(*args: Any, **kwargs: Any) -> Any:
            listener.on_generate(_end_ids(model, signature(stock).bind(*args, **kwargs).arguments))
            try:
                return stock(*args, **kwargs)
            finally:
                listener.on_generate_end()

        object.__setattr__(model, "generate", generate)
        self._undo.append(lambda: model.__dict__.pop("generate", None))


def _refuse_state(*args: Any) -> None:
    # Saved as they are, meta tensors would make a checkpoint without experts, and loading would lose them.
    raise RuntimeError(
        "expected a detached model to save or load its weights, got one whose experts an engine holds: "
        "detach it first"
    )


def _deselect(config: Any, key: int) -> None:
    _, config._experts_implementation = _implementation_before.pop(key)


def _call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> ForwardCall:
    ids, mask = (
        kwargs.get(name, args[place] if len(args) > place else None)
        for place, name in enumerate(("input_ids", "attention_mask"))
    )
    # Releases differ in what they call the cache.
    cache = kwargs.get("cache", kwargs.get("past_key_values", args[3] if len(args) > 3 else None))
    source = ids if isinstance(ids, Tensor) else kwargs.get("inputs_embeds")
    if not isinstance(source, Tensor) or source.ndim < 2:
        raise ValueError("expected input_ids of shape [batch, tokens] or inputs_embeds, got neither")
    return ForwardCall(
        ids=ids if isinstance(ids, Tensor) else None,
        mask=mask,
        batch=int(source.shape[0]),
        tokens=int(source.shape[1]),
        past=int(cache.get_seq_length()) if cache is not None else 0,
    )


def _end_ids(model: Any, arguments: dict[str, Any]) -> tuple[int, ...]:
    """Tokens after which a row of a ``generate`` is finished; none where that cannot be told."""
    given, extra = arguments.get("generation_config"), arguments.get("kwargs", {})

    def setting(name: str) -> Any:
        if name in extra:
            return extra[name]
        value = getattr(given, name, None)
        return getattr(model.generation_config, name, None) if value is None else value

    # Beams are reordered between steps, drafts and chunks feed several tokens, guidance runs passes between.
    if (setting("num_beams") or 1) > 1 or (setting("guidance_scale") or 1) != 1:
        return ()
    if arguments.get("assistant_model") is not None or arguments.get("custom_generate") is not None:
        return ()
    several = ("prompt_lookup_num_tokens", "assistant_early_exit", "prefill_chunk_size")
    ends = setting("eos_token_id")
    if ends is None or any(setting(name) for name in several):
        return ()
    return tuple(int(end) for end in torch.as_tensor(ends).reshape(-1).tolist())
