"""Stretching chosen operations and whole streams, to find what only an unlucky order shows."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from prescope.formulation.checks import require_int
from prescope.runtime.program import Op, OpKind, Stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """Makes one operation longer.

    Parameters
    ----------
    kind, layer, expert
        Which one; ``expert`` is ``None`` for dense work.
    extra_ns
        Modelled time added to it.
    step
        Only in this step, counted from 0; ``None`` for every step.
    """

    kind: OpKind
    layer: int
    expert: int | None
    extra_ns: int
    step: int | None = None

    def __post_init__(self) -> None:
        require_int("extra_ns", self.extra_ns, 0)

    def applies(self, op: Op, step: int) -> bool:
        """Whether it concerns an operation of a step."""
        return (op.kind, op.layer, op.expert) == (self.kind, self.layer, self.expert) and self.step in (
            None,
            step,
        )


def extra_ns(delays: tuple[Delay, ...], op: Op, step: int) -> int:
    """Modelled time that all delays add to an operation."""
    return sum(delay.extra_ns for delay in delays if delay.applies(op, step))


def swarm_speeds(seed: int, *, low: float = 0.01, high: float = 100.0) -> tuple[tuple[Stream, float], ...]:
    """A factor on the duration of every stream's operations, log-uniform in ``[low, high]``."""
    generator = random.Random(seed)
    return tuple((stream, math.exp(generator.uniform(math.log(low), math.log(high)))) for stream in Stream)
