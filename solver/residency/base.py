"""What a residency rule is: who keeps a permanent place on the device from one step to the next."""

from __future__ import annotations

from typing import Protocol

from prescope.formulation.demand import FloatArray, IntArray


class ResidencyRule(Protocol):
    """Scores experts after every step; `prescope.solver.residency.exchange` keeps the highest scores."""

    @property
    def name(self) -> str:
        """Its name in tables and in the registry."""
        ...

    def observe(self, counts: IntArray) -> None:
        """A step is over; ``counts`` are its tokens, int64 ``[layers, experts]``."""
        ...

    def scores(self) -> FloatArray | None:
        """Worth of a place for each expert in the coming step, float64 ``[layers, experts]``.

        ``None`` leaves everything as it is.
        """
        ...
