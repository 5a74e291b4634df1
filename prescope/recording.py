"""Recording a model's routing while it generates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from prescope.instances import RoutingTrace

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingSize:
    """How large a recording becomes.

    Parameters
    ----------
    token_bytes
        Bytes of a token before compression, gating inputs included if they are kept.
    hidden_bytes
        How many of them are gating inputs.
    tokens
        Tokens at most: all prompts, and all that may be generated.
    """

    token_bytes: int
    hidden_bytes: int
    tokens: int

    @property
    def size_bytes(self) -> int:
        """Bytes at most, before compression."""
        return self.token_bytes * self.tokens

    def require_possible(self) -> None:
        """Refuse what is larger than a trace may be; raises `ValueError` with what to do."""
        from prescope.instances.limits import MAX_TRACE_BYTES

        if self.size_bytes > MAX_TRACE_BYTES:
            less = "without gating inputs, " if self.hidden_bytes else ""
            raise ValueError(
                f"expected a trace of at most {MAX_TRACE_BYTES} bytes before compression, got {self.tokens} "
                f"tokens of {self.token_bytes} bytes, {self.size_bytes} in all: record {less}fewer prompts "
                "or tokens, or into several files"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedFile:
    """A trace that was recorded into a file.

    Parameters
    ----------
    model
        Name of the model.
    tokens, sequences, layers, experts, top_k
        Its size.
    sha256
        Checksum of its content.
    """

    model: str
    tokens: int
    sequences: int
    layers: int
    experts: int
    top_k: int
    sha256: str


def recording_size(
    model: Any, tokenizer: Any, prompts: Sequence[str], *, new_tokens: int, hidden: bool = False
) -> RecordingSize:
    """How large a recording becomes; parameters as for `record_routing`."""
    from prescope.compare.generation import encode
    from prescope.runtime.plugin import moe_layers

    layers = moe_layers(model)
    router = layers[0].router
    experts, width = router.weight.shape[-2:]
    id_bytes = 1 if experts <= 255 else 2
    hidden_bytes = len(layers) * int(width) * 2 if hidden else 0
    # Per token also: its id, its phase, and whether it is padding.
    token_bytes = len(layers) * int(router.top_k) * (id_bytes + 4) + 4 + 1 + 1 + hidden_bytes
    lengths = (encode(tokenizer, [prompt])["input_ids"].shape[1] for prompt in prompts)
    # The last token generated is never given to the model.
    tokens = sum(length + new_tokens - 1 for length in lengths)
    return RecordingSize(token_bytes=token_bytes, hidden_bytes=hidden_bytes, tokens=tokens)


def record_routing(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[str],
    *,
    batch: int,
    new_tokens: int,
    hidden: bool = False,
    progress: Progress = lambda done: None,
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
        Keep the gating inputs too: 2 bytes per layer, token and channel.
    progress
        Called with the number of prompts done.

    Raises
    ------
    ValueError
        When there is no prompt or the model is not supported.
    """
    *_, trace = _batches(
        model, tokenizer, prompts, batch, new_tokens, hidden=hidden, progress=progress, forget=False
    )
    return trace


def record_to_file(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[str],
    path: str | Path,
    *,
    batch: int,
    new_tokens: int,
    hidden: bool = False,
    progress: Progress = lambda done: None,
) -> RecordedFile:
    """Record into a trace file; memory holds one batch. Parameters as for `record_routing`.

    Batches go to files without a name beside ``path`` as they come. The trace appears when it is whole.

    Raises
    ------
    ValueError
        As for `record_routing`, or when the trace becomes too large.
    OSError
        When the folder cannot be written to, or the disk is full.
    """
    from prescope.instances.trace_spool import TraceSpool

    with TraceSpool(Path(path).parent) as spool:
        for trace in _batches(
            model, tokenizer, prompts, batch, new_tokens, hidden=hidden, progress=progress, forget=True
        ):
            spool.append(trace)
        return RecordedFile(
            model=trace.meta.model,
            tokens=spool.tokens,
            sequences=spool.sequences,
            layers=trace.layers,
            experts=trace.meta.experts,
            top_k=trace.meta.top_k,
            sha256=spool.write(path),
        )


def _batches(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[str],
    batch: int,
    new_tokens: int,
    *,
    hidden: bool,
    progress: Progress,
    forget: bool,
) -> Iterator[RoutingTrace]:
    """What was recorded after each batch: that batch (``forget``), or once all of them."""
    from prescope.compare.generation import encode, generate
    from prescope.formulation.checks import require_int
    from prescope.runtime.plugin import attach, expert_bytes

    if not prompts:
        raise ValueError("expected at least one prompt, got none")
    require_int("batch", batch, 1)
    require_int("new_tokens", new_tokens, 1)
    layers, experts, size_bytes = expert_bytes(model)
    # With every expert resident nothing is copied: what is chosen is what the stock model chooses.
    whole_bytes = layers * experts * size_bytes
    record: Literal["hidden", True] = "hidden" if hidden else True
    source = f"{len(prompts)} prompts, {new_tokens} new tokens each, greedy, {batch} at once"
    with attach(model, whole_bytes, policy="cpu-only", backend="sim", record=record) as engine:
        for first in range(0, len(prompts), batch):
            group = prompts[first : first + batch]
            generate(model, encode(tokenizer, group), new_tokens)
            if forget or first + batch >= len(prompts):
                yield engine.routing(source=source, forget=forget)
            progress(first + len(group))
