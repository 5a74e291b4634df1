"""Runs the stock model, then the same prompts under every policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from prescope.compare.row import Comparison, Row, StepSchedules
from prescope.compare.settings import CompareSettings

if TYPE_CHECKING:
    from torch import Tensor

    from prescope.compare.generation import Generated
    from prescope.formulation.demand import FloatArray, IntArray
    from prescope.runtime.plugin import Engine

Progress = Callable[[str], None]

# More operations than this overran their modelled time: the executed time says nothing.
_MOST_VIOLATIONS = 0.01
# A busy machine can need more than was measured at rest: one more try, slower.
_STRETCH = 2.0
_WARM_UP_TOKENS = 3


def compare(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[str],
    other_prompts: Sequence[str],
    settings: CompareSettings,
    *,
    name: str,
    progress: Progress = lambda text: None,
) -> Comparison:
    """Generate for the same prompts with the stock model and under every policy.

    All policies get the same memory, the same residents and the same predictor.

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
    from prescope.compare.generation import encode, generate
    from prescope.runtime.plugin import expert_bytes

    layers, experts, size_bytes = expert_bytes(model)
    residents = round(layers * experts * settings.resident_share)
    run = _Run(model, settings, (residents + settings.slots) * size_bytes)
    inputs = encode(tokenizer, prompts)
    progress("stock model")
    reference = generate(model, inputs, settings.new_tokens)
    progress("which experts are popular, on other prompts")
    run.popularity = run.shares(encode(tokenizer, other_prompts))
    known = None
    if settings.clairvoyant:
        progress("routing of the prompts, for the oracle")
        known = run.steps(inputs)
    rows = []
    for policy in settings.policies:
        progress(policy)
        rows.append(run.row(policy, inputs, reference, known, progress))
    return Comparison(
        model=name,
        preset=settings.preset,
        backend=settings.backend,
        clairvoyant=settings.clairvoyant,
        dilation=max(row.dilation for row in rows),
        expert_memory_bytes=run.memory_bytes,
        residents=residents,
        slots=settings.slots,
        experts=layers * experts,
        prompts=tuple(prompts),
        continuations=reference.texts(tokenizer),
        rows=tuple(rows),
    )


class _Run:
    """One comparison under way."""

    def __init__(self, model: Any, settings: CompareSettings, memory_bytes: int) -> None:
        self.model, self.settings, self.memory_bytes = model, settings, memory_bytes
        self.popularity: FloatArray | None = None
        self.dilation = settings.dilation

    def attach(self, **changes: Any) -> Engine:
        from prescope.runtime.plugin import attach

        settings = self.settings
        return attach(
            self.model,
            self.memory_bytes,
            **{
                "preset": settings.preset,
                "slots": settings.slots,
                "lookahead": settings.lookahead,
                "popularity": self.popularity,
                "seed": settings.seed,
                **changes,
            },
        )

    def steps(self, inputs: dict[str, Tensor]) -> list[IntArray]:
        """Tokens per expert of every step, from a recorded pass."""
        from prescope.compare.generation import generate

        # Routing does not depend on the policy; this one copies nothing.
        with self.attach(policy="cpu-only", backend="sim", record=True) as engine:
            generate(self.model, inputs, self.settings.new_tokens)
            return engine.step_counts()

    def shares(self, inputs: dict[str, Tensor]) -> FloatArray:
        """Share of each expert, float64 ``[layers, experts]``."""
        counts = np.sum(self.steps(inputs), axis=0).astype(np.float64)
        shares: FloatArray = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        return shares

    def row(
        self,
        policy: str,
        inputs: dict[str, Tensor],
        reference: Generated,
        known: list[IntArray] | None,
        progress: Progress,
    ) -> Row:
        """One policy, once more and slower when too many operations overran."""
        if self.settings.backend == "cpu":
            self._warm_up(policy, inputs, known)
        row = self._row(policy, inputs, reference, known, self.dilation)
        if self.dilation is None:
            # Kept from the first policy on, so that all rows run equally slowly.
            self.dilation = row.dilation
        if row.refused is None or self.settings.dilation is not None:
            return row
        progress(f"{policy} again, slower: {row.refused}")
        return self._row(policy, inputs, reference, known, row.dilation * _STRETCH)

    def _warm_up(self, policy: str, inputs: dict[str, Tensor], known: list[IntArray] | None) -> None:
        """Compile and load what decides, which would otherwise happen within the first executed step."""
        from prescope.compare.generation import generate

        with self.attach(policy=policy, predictor=self._predictor(known), backend="sim"):
            generate(self.model, inputs, min(self.settings.new_tokens, _WARM_UP_TOKENS))

    def _predictor(self, known: list[IntArray] | None) -> Any:
        from prescope.predictor import Oracle

        return self.settings.predictor if known is None else Oracle(steps=known)

    def _row(
        self,
        policy: str,
        inputs: dict[str, Tensor],
        reference: Generated,
        known: list[IntArray] | None,
        dilation: float | None,
    ) -> Row:
        from prescope.compare.generation import generate

        settings = self.settings
        options = _options(settings.backend, dilation)
        with self.attach(
            policy=policy,
            predictor=self._predictor(known),
            backend=settings.backend,
            backend_options=options,
        ) as engine:
            generated = generate(self.model, inputs, settings.new_tokens)
            report = engine.report()
            steps = tuple(
                StepSchedules(planned=record.planned, executed=record.trace.schedule)
                for record in engine.records
            )
            link_bytes_per_s = engine.settings.costs.link.bytes_per_s
        totals = report.totals()
        refused = None
        if totals.violation_share > _MOST_VIOLATIONS:
            refused = f"{totals.violation_share:.1%} of the operations took longer than modelled"
        return Row(
            policy=policy,
            predictor=report.predictor,
            batch=int(inputs["input_ids"].shape[0]),
            link_bytes_per_s=link_bytes_per_s,
            tokens_equal=generated.equals(reference),
            new_tokens=int(generated.real.sum()),
            totals=totals,
            prefill=report.totals("prefill"),
            decode=report.totals("decode"),
            dilation=report.dilation,
            refused=refused,
            degraded=report.degraded,
            steps=steps,
        )


def _options(backend: str, dilation: float | None) -> Any:
    if backend != "cpu" or dilation is None:
        return None
    from prescope.runtime.backends.cpu import CpuOptions

    return CpuOptions(dilation=dilation)
