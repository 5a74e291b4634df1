"""What a controller hands to the runtime at each gate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from prescope.formulation import Instance, LayerPlan, Plan, Transfer
from prescope.formulation.demand import IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Wave:
    """The work issued at one gate.

    Parameters
    ----------
    layer
        Layer of the gate; -1 for the start of a step.
    plan
        Where the layer's activated experts run, in order.
    copies
        Copies issued now, in link order, with their slots and ``gate == layer``.
    brought
        Experts of the layer that were copied in this step and have landed by the end of the layer.
    prediction_ns
        What the forecasts after this gate take the host.
    predict
        Makes them, on any thread, before anything else is observed; ``None`` where they take no time. A later
        gate makes them itself where nobody has.
    """

    layer: int
    plan: LayerPlan
    copies: tuple[Transfer, ...]
    brought: tuple[int, ...] = ()
    prediction_ns: int = 0
    predict: Callable[[], None] | None = None

    @property
    def requests(self) -> list[tuple[int, int, int]]:
        """``(layer, expert, slot)`` of the copies."""
        return [(copy.layer, copy.expert, copy.slot) for copy in self.copies if copy.slot is not None]


class StepControl(Protocol):
    """Decides one step, gate by gate."""

    def start(self) -> Wave:
        """Copies to issue before the first gate."""
        ...

    def gate(self, layer: int, counts: IntArray) -> Wave:
        """Decide a layer from its true token counts, int64 ``[experts]``."""
        ...

    def finish(self, predictor: str | None = None) -> tuple[Instance, Plan]:
        """The step as it was decided, for the evaluator, after the last gate.

        Parameters
        ----------
        predictor
            Name of whoever made the forecasts, to have those that were asked for in the instance.
        """
        ...

    @property
    def link_ready_ns(self) -> int:
        """How long after the step's end the link stays busy."""
        ...
