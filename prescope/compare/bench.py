"""One batch of prompts on one model: everything that all policies share, and one policy's run on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prescope.compare.row import Row
from prescope.compare.settings import CompareSettings

if TYPE_CHECKING:
    from torch import Tensor

    from prescope.compare.generation import Generated
    from prescope.formulation.demand import FloatArray, IntArray
    from prescope.runtime.plugin import Engine

# More operations than this overran their modelled time: the executed time says nothing.
_MOST_VIOLATIONS = 0.01
# Steps that a recording keeps: the newest of a longer run.
_MOST_STEPS = 512


class Bench:
    """Runs policies under the same conditions.

    Parameters
    ----------
    model
        A transformers model of a supported family.
    settings
        Conditions.
    inputs
        Tokens of the prompts, as `prescope.compare.generation.encode` gives them.
    memory_bytes
        Device memory for experts.
    """

    def __init__(
        self, model: Any, settings: CompareSettings, *, inputs: dict[str, Tensor], memory_bytes: int
    ) -> None:
        from prescope.compare.generation import generate

        self.settings = settings
        self.memory_bytes = memory_bytes
        self._model, self._inputs = model, inputs
        self._popularity: FloatArray | None = None
        self._known: list[IntArray] | None = None
        self.reference: Generated = generate(model, inputs, settings.new_tokens)

    def choose_residents(self, inputs: dict[str, Tensor]) -> None:
        """Pin what is popular on other prompts."""
        counts = np.sum(self._recorded(inputs), axis=0).astype(np.float64)
        self._popularity = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)

    def look_ahead(self) -> None:
        """Record the routing of the prompts, so that policies plan with it known."""
        self._known = self._recorded(self._inputs)

    def dilation(self) -> float:
        """How slow the slow motion must be here and now."""
        with self._attach(backend="cpu") as engine:
            return engine.report().dilation

    def run(self, policy: str, *, retention: str, backend: str, dilation: float | None = None) -> Row:
        """Generate under one policy and one rule for its residents."""
        from prescope.compare.generation import generate

        with self._attach(
            policy=policy,
            retention=retention,
            predictor=self._predictor(),
            backend=backend,
            backend_options=None if dilation is None else _slow_motion(dilation),
        ) as engine:
            engine.keep_steps(min(self.settings.new_tokens, _MOST_STEPS))
            generated = generate(self._model, self._inputs, self.settings.new_tokens)
            report = engine.report()
            recording = engine.recording()
            link_bytes_per_s = engine.settings.costs.link.bytes_per_s
        totals = report.totals()
        refused = None
        if totals.violation_share > _MOST_VIOLATIONS:
            refused = f"{totals.violation_share:.1%} of the operations took longer than modelled"
        return Row(
            policy=policy,
            retention=retention,
            predictor=report.predictor,
            batch=int(self._inputs["input_ids"].shape[0]),
            link_bytes_per_s=link_bytes_per_s,
            tokens_equal=generated.equals(self.reference),
            new_tokens=int(generated.real.sum()),
            totals=totals,
            prefill=report.totals("prefill"),
            decode=report.totals("decode"),
            dilation=report.dilation,
            refused=refused,
            degraded=report.degraded,
            recording=recording,
        )

    def _predictor(self) -> Any:
        from prescope.predictor import Oracle

        return self.settings.predictor if self._known is None else Oracle(steps=self._known)

    def _recorded(self, inputs: dict[str, Tensor]) -> list[IntArray]:
        from prescope.compare.generation import generate

        # Routing does not depend on the policy; this one copies nothing.
        with self._attach(policy="cpu-only", backend="sim", record=True) as engine:
            generate(self._model, inputs, self.settings.new_tokens)
            return engine.step_counts()

    def _attach(self, **changes: Any) -> Engine:
        from prescope.runtime.plugin import attach

        settings = self.settings
        return attach(
            self._model,
            self.memory_bytes,
            preset=settings.preset,
            slots=settings.slots,
            lookahead=settings.lookahead,
            popularity=self._popularity,
            seed=settings.seed,
            **changes,
        )


def _slow_motion(dilation: float) -> Any:
    from prescope.runtime.backends.cpu import CpuOptions

    return CpuOptions(dilation=dilation)
