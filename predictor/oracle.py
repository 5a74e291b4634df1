"""The truth, from a recorded pass over the same tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from prescope.formulation.demand import IntArray
from prescope.formulation.forecast import Forecast
from prescope.instances import Phase, RoutingTrace, decode_batches, prefill
from prescope.predictor.shares import check_target, expert_counts

if TYPE_CHECKING:
    from torch import Tensor


class Oracle:
    """Forecasts each step's recorded counts.

    Parameters
    ----------
    steps
        Tokens of each expert for every step in order, int ``[layers, experts]`` each.
    """

    name = "oracle"

    @classmethod
    def from_trace(cls, trace: RoutingTrace) -> Oracle:
        """The oracle of one ``generate`` call over all sequences of a recorded trace: prompts, then tokens.

        Parameters
        ----------
        trace
            Routing of the same call, as `Engine.routing` or ``prescope record`` keeps it.
        """
        batch = trace.sequences
        steps = [step.demand.counts for step in prefill(trace, batch)]
        if (trace.phase == Phase.DECODE).any():
            steps += [step.demand.counts for step in decode_batches(trace, batch)]
        return cls(steps=steps)

    def __init__(self, *, steps: Sequence[IntArray]) -> None:
        if not steps:
            raise ValueError("expected the recorded counts of at least one step, got none")
        self._steps = [np.asarray(step, dtype=np.int64) for step in steps]
        self._step = -1

    def known_counts(self) -> IntArray:
        """Recorded counts of the running step; see `Predictor.known_counts`."""
        return self._steps[self._step]

    def begin_step(
        self, tokens: int, *, sequences: IntArray | None = None, token_ids: IntArray | None = None
    ) -> None:
        """Move to the next recorded step.

        Raises
        ------
        ValueError
            When the recording has no further step.
        """
        self._step += 1
        if self._step >= len(self._steps):
            raise ValueError(
                f"expected at most {len(self._steps)} steps, as many as were recorded, got another one"
            )

    def observe(self, layer: int, hidden: Tensor | None, indices: Tensor, weights: Tensor | None) -> None:
        """Check a gate against the recording.

        Raises
        ------
        ValueError
            When the running pass routes its tokens otherwise than the recorded one.
        """
        recorded = self.known_counts()[layer]
        if not np.array_equal(expert_counts(indices, recorded.shape[0]), recorded):
            raise ValueError(
                f"expected the recorded routing in step {self._step} layer {layer}, got other counts: "
                "an oracle serves only the tokens it was recorded on"
            )

    def predict(self, layer: int, horizon: int) -> Forecast:
        """True counts of the layer; see `Predictor.predict`."""
        counts = self.known_counts()
        truth = counts[check_target(layer, horizon, counts.shape[0])]
        return Forecast(expected_tokens=truth.astype(np.float64), probability=(truth > 0).astype(np.float64))
