"""Runs the stock model, then the same prompts under every policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from prescope.compare.bench import Bench
from prescope.compare.row import Comparison
from prescope.compare.settings import CompareSettings
from prescope.compare.slow_motion import execute


def compare(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[str],
    other_prompts: Sequence[str],
    settings: CompareSettings,
    *,
    name: str,
    progress: Callable[[str], None] = lambda text: None,
) -> Comparison:
    """Generate for the same prompts with the stock model and under every policy.

    All policies get the same memory, the same first residents and the same predictor.

    Parameters
    ----------
    model, tokenizer
        A transformers model of a family that `prescope.attach` supports, and its tokenizer.
    prompts
        Texts to continue, all in one batch.
    other_prompts
        Texts that choose the residents; they should be others than ``prompts``.
    settings
        Conditions.
    name
        Name of the model in the result.
    progress
        Called with a line of text before everything that takes time.

    Raises
    ------
    ValueError
        When anything asked for cannot be done; nothing stays attached.
    """
    from prescope.runtime.profile.machine import engine_threads
    from prescope.runtime.profile.threads import intra_op_threads

    # One core stays with the threads that copy: otherwise they and torch's own threads wait for each other.
    with intra_op_threads(engine_threads()):
        return _compare(model, tokenizer, prompts, other_prompts, settings, name=name, progress=progress)


def _compare(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[str],
    other_prompts: Sequence[str],
    settings: CompareSettings,
    *,
    name: str,
    progress: Callable[[str], None],
) -> Comparison:
    from prescope.compare.generation import encode
    from prescope.runtime.plugin import expert_bytes

    layers, experts, size_bytes = expert_bytes(model)
    residents = round(layers * experts * settings.resident_share)
    memory_bytes = (residents + settings.slots) * size_bytes
    progress("stock model")
    bench = Bench(model, settings, inputs=encode(tokenizer, prompts), memory_bytes=memory_bytes)
    progress("which experts are popular, on other prompts")
    bench.choose_residents(encode(tokenizer, other_prompts))
    if settings.clairvoyant:
        progress("routing of the prompts, for the oracle")
        bench.look_ahead()
    progress("all policies in virtual time")
    rows = tuple(
        bench.run(policy, retention=retention, backend="sim")
        for policy in settings.policies
        for retention in settings.retentions
    )
    if settings.backend == "cpu":
        rows = execute(bench, rows, progress)
    return Comparison(
        model=name,
        preset=settings.preset,
        backend=settings.backend,
        clairvoyant=settings.clairvoyant,
        dilation=max(row.dilation for row in rows),
        expert_memory_bytes=memory_bytes,
        residents=residents,
        slots=settings.slots,
        experts=layers * experts,
        prompts=tuple(prompts),
        continuations=bench.reference.texts(tokenizer),
        rows=rows,
    )
