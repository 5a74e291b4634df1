"""Hooks into transformers: the experts registry, the forward pass and ``generate``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from torch import Tensor, nn

from prescope.runtime.plugin.moe_layers import AttachError, MoeLayer, tag, tagged, untag

IMPLEMENTATION = "prescope"


class ForwardListener(Protocol):
    """What the hooks call."""

    def on_forward(self, ids: Tensor | None, mask: Any, shape: tuple[int, int]) -> None:
        """A forward pass of ``shape`` (batch, tokens) begins."""

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


# What modules without an engine do when they share the config of an attached model.
_implementation_before: dict[int, str | None] = {}


def experts_forward(module: nn.Module, hidden: Tensor, indices: Tensor, weights: Tensor) -> Tensor:
    """The registered implementation: hands a layer's experts to the engine of its model."""
    mark = tagged(module)
    if mark is not None:
        layer, listener = mark
        return listener.on_experts(layer, module, hidden, indices, weights)  # type: ignore[attr-defined,no-any-return]
    from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

    stock = type(module).forward.__wrapped__  # type: ignore[attr-defined]
    before = _implementation_before.get(id(module.config), "eager")
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
            self._select()
            base = model.base_model
            before = base.register_forward_pre_hook(
                lambda module, args, kwargs: listener.on_forward(*_inputs(args, kwargs)), with_kwargs=True
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
            _implementation_before[key] = config._experts_implementation
            self._undo.append(lambda config=config, key=key: _deselect(config, key))  # type: ignore[misc]
            # Set on the config that the modules read: set_experts_implementation skips subclasses that live
            # in files of their own without saying so.
            config._experts_implementation = IMPLEMENTATION

    def _wrap_generate(self, listener: ForwardListener) -> None:
        stock = getattr(self._model, "generate", None)
        if stock is None:
            return
        model = self._model

        def generate(*args: Any, **kwargs: Any) -> Any:
            listener.on_generate(_end_ids(model, kwargs))
            try:
                return stock(*args, **kwargs)
            finally:
                listener.on_generate_end()

        generate.__doc__ = stock.__doc__
        object.__setattr__(model, "generate", generate)
        self._undo.append(lambda: model.__dict__.pop("generate", None))


def _deselect(config: Any, key: int) -> None:
    config._experts_implementation = _implementation_before.pop(key)


def _inputs(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor | None, Any, tuple[int, int]]:
    ids = kwargs.get("input_ids", args[0] if args else None)
    mask = kwargs.get("attention_mask", args[1] if len(args) > 1 else None)
    source = ids if isinstance(ids, Tensor) else kwargs.get("inputs_embeds")
    if not isinstance(source, Tensor) or source.ndim < 2:
        raise ValueError("expected input_ids of shape [batch, tokens] or inputs_embeds, got neither")
    return ids if isinstance(ids, Tensor) else None, mask, (int(source.shape[0]), int(source.shape[1]))


def _end_ids(model: Any, kwargs: dict[str, Any]) -> tuple[int, ...]:
    config = kwargs.get("generation_config") or model.generation_config

    def setting(name: str) -> Any:
        return kwargs.get(name, getattr(config, name, None))

    # Beams are reordered between steps and drafts feed several tokens: no row can be called finished there.
    if (setting("num_beams") or 1) > 1 or kwargs.get("assistant_model") is not None:
        return ()
    if setting("prompt_lookup_num_tokens") or kwargs.get("custom_generate") is not None:
        return ()
    ends = setting("eos_token_id")
    if ends is None:
        return ()
    return tuple(int(end) for end in ends) if isinstance(ends, (list, tuple)) else (int(ends),)
