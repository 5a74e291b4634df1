"""Who becomes resident at a gate, in whose place: what was brought in replaces residents worth less."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from prescope.formulation.demand import IntArray
from prescope.solver.residency import GateRule


class Exchange(NamedTuple):
    """An expert in a slot takes a resident's row; the slot goes on with its own."""

    layer: int
    expert: int
    victim: int


class Pinned:
    """Residents that never change; as `Retention`, which says what the methods do."""

    exchanges: tuple[Exchange, ...] = ()

    def resume(self, residents: Sequence[Sequence[int]]) -> None:
        """They are what they were."""

    def begin_step(self, *, tokens: int, coming_tokens: int) -> None:
        """Say nothing: whoever makes the steps knows them."""

    def gate(
        self, layer: int, counts: IntArray, brought: Iterable[int], lasting: Collection[int] = ()
    ) -> tuple[Exchange, ...]:
        """Nobody moves."""
        return ()

    def end_step(self) -> None:
        """Nothing was learned."""

    def close(self) -> None:
        """There is nothing to release."""


class Retention:
    """Residents of one step after another.

    An expert that was brought for a layer takes the place of a resident of the same layer without tokens in
    this step, if a place is worth more to it. Nothing is copied, and the present step runs as if nothing had
    happened: from the next one on, the expert is resident.

    Parameters
    ----------
    rule
        Scores the experts of a layer.
    residents
        Per layer, the residents of the first step.
    experts
        Experts per layer.
    needed_from
        Tokens in coming steps from which residents with tokens give way too, to an expert that keeps its slot
        until the layer is over, as from then on the slot has the resident's memory; ``None`` never.
    """

    def __init__(
        self,
        rule: GateRule,
        residents: Sequence[Sequence[int]],
        *,
        experts: int,
        needed_from: int | None = None,
    ) -> None:
        self._rule, self._needed_from = rule, needed_from
        self._next = np.zeros((len(residents), experts), dtype=np.bool_)
        self._tokens, self._steps = 1, 1.0
        self.exchanges: tuple[Exchange, ...] = ()
        self.resume(residents)

    @property
    def rule(self) -> GateRule:
        """The rule."""
        return self._rule

    def resume(self, residents: Sequence[Sequence[int]]) -> None:
        """Go on with these residents, after a step that was given up."""
        self._next[:] = False
        for layer, row in enumerate(residents):
            self._next[layer, list(row)] = True
        self._rule.end_step()

    def begin_step(self, *, tokens: int, coming_tokens: int) -> npt.NDArray[np.bool_]:
        """A step begins; returns who is resident in it, bool ``[layers, experts]``.

        Parameters
        ----------
        tokens
            Tokens of the step.
        coming_tokens
            Tokens that the steps after it will have.
        """
        self._tokens = max(1, coming_tokens)
        self._steps = max(1.0, tokens / self._tokens)
        self.exchanges = ()
        return self._next.copy()

    def gate(
        self, layer: int, counts: IntArray, brought: Iterable[int], lasting: Collection[int] = ()
    ) -> tuple[Exchange, ...]:
        """A gate was decided: whose places change from the next step on.

        Parameters
        ----------
        layer
            Its layer.
        counts
            Its true tokens, int64 ``[experts]``.
        brought
            Experts of the layer that are in slots by the end of the layer.
        lasting
            Those of them whose slots no copy of this gate takes again.
        """
        self._rule.observe(layer, counts, self._steps)
        comers = [expert for expert in brought if not self._next[layer, expert]]
        said = self._rule.scores(layer, self._tokens) if comers else None
        if said is None:
            return ()
        scores = np.asarray(said, dtype=np.float64)
        if scores.shape != counts.shape or not np.isfinite(scores).all():
            raise ValueError(
                f"expected {counts.shape[0]} finite scores from retention {self._rule.name!r}, got "
                f"{scores.shape} or NaN"
            )
        # The best of those that come against the worst of those that may go.
        comers.sort(key=lambda expert: (-scores[expert], expert))
        if self._needed_from is None or self._tokens < self._needed_from:
            lasting = ()
        residents = np.flatnonzero(self._next[layer])
        leaving = residents[np.argsort(scores[residents], kind="stable")].tolist()
        made = []
        for expert in comers:
            victim = next((one for one in leaving if expert in lasting or not counts[one]), None)
            if victim is None or scores[victim] >= scores[expert]:
                continue
            leaving.remove(victim)
            made.append(Exchange(layer, expert, victim))
            self._next[layer, victim], self._next[layer, expert] = False, True
        self.exchanges += tuple(made)
        return tuple(made)

    def end_step(self) -> None:
        """All gates have spoken."""
        self._rule.end_step()

    def close(self) -> None:
        """Release what the rule holds."""
        self._rule.close()
