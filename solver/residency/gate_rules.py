"""Residency rules that are told of every gate as it speaks, and may be asked before the step is over."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from prescope.formulation.demand import FloatArray, IntArray
from prescope.solver.residency.base import ResidencyRule


class GateRule(Protocol):
    """Scores the experts of a layer at its gate; the highest ones should keep their places."""

    @property
    def name(self) -> str:
        """Its name in tables and in the registry."""
        ...

    def observe(self, layer: int, counts: IntArray, steps: float = 1.0) -> None:
        """A gate has spoken.

        Parameters
        ----------
        layer
            Its layer.
        counts
            Its tokens, int64 ``[experts]``.
        steps
            As how many steps this one counts: a prompt's tokens would else come one after the other.
        """
        ...

    def scores(self, layer: int, tokens: int) -> FloatArray | None:
        """Worth of a place for each expert of a layer in coming steps of ``tokens`` tokens, ``[experts]``.

        ``None`` leaves everything as it is.
        """
        ...

    def end_step(self) -> None:
        """All gates of a step have spoken, or those of a step that was given up."""
        ...

    def close(self) -> None:
        """Release what it holds; it is not asked any more."""
        ...


class StepwiseRule:
    """A rule that learns of whole steps: at a gate it says what it said after the step before.

    Parameters
    ----------
    rule
        Any residency rule.
    layers, experts
        Shape of the model.
    """

    def __init__(self, rule: ResidencyRule, *, layers: int, experts: int) -> None:
        self.name = rule.name
        self._rule = rule
        self._counts = np.zeros((layers, experts), dtype=np.int64)
        self._seen = 0

    def observe(self, layer: int, counts: IntArray, steps: float = 1.0) -> None:
        """See `GateRule.observe`; every step counts as one."""
        self._counts[layer] = counts
        self._seen += 1

    def scores(self, layer: int, tokens: int) -> FloatArray | None:
        """See `GateRule.scores`; for the tokens that the rule itself expects."""
        scores = self._rule.scores()
        return None if scores is None else scores[layer]

    def end_step(self) -> None:
        """See `GateRule.end_step`; a step that was given up teaches nothing."""
        if self._seen == self._counts.shape[0]:
            self._rule.observe(self._counts.copy())
        self._seen = 0

    def close(self) -> None:
        """See `GateRule.close`."""
