"""Recording a model's routing while it generates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from prescope.instances import RoutingTrace


def record_routing(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[str],
    *,
    batch: int,
    new_tokens: int,
    hidden: bool = False,
    progress: Callable[[int], None] = lambda done: None,
) -> RoutingTrace:
    """Generate for all prompts, ``batch`` at a time, and keep which experts every real token chose.

    Parameters
    ----------
    model, tokenizer
        A transformers model of a family that `prescope.attach` supports, and its tokenizer.
    prompts
        Texts to continue.
    batch
        Prompts generated for at once.
    new_tokens
        Tokens to generate for each prompt at most.
    hidden
        Keep the gating inputs too.
    progress
        Called with the number of prompts done.

    Raises
    ------
    ValueError
        When there is no prompt or the model is not supported.
    """
    from prescope.compare.generation import encode, generate
    from prescope.runtime.plugin import attach, expert_bytes

    if not prompts:
        raise ValueError("expected at least one prompt, got none")
    layers, experts, size_bytes = expert_bytes(model)
    # With every expert resident nothing is copied: what is chosen is what the stock model chooses.
    whole_bytes = layers * experts * size_bytes
    record: Literal["hidden", True] = "hidden" if hidden else True
    with attach(model, whole_bytes, policy="cpu-only", backend="sim", record=record) as engine:
        for first in range(0, len(prompts), batch):
            group = prompts[first : first + batch]
            generate(model, encode(tokenizer, group), new_tokens)
            progress(first + len(group))
        return engine.routing(
            source=f"{len(prompts)} prompts, {new_tokens} new tokens each, greedy, {batch} at once"
        )
