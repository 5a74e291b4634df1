"""Control of a step whose demand is known: a solver's plan, followed gate by gate."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict

import numpy as np

from prescope.formulation import Instance, Lane, LayerPlan, Plan, TaskKind, Transfer, evaluate
from prescope.formulation.demand import IntArray
from prescope.runtime.control.wave import Wave


class PlannedStep:
    """Follows a plan, issuing each copy at the last gate before its planned start.

    Parameters
    ----------
    instance
        The step with its known demand.
    plan
        A plan for it.
    """

    def __init__(self, *, instance: Instance, plan: Plan) -> None:
        schedule = evaluate(instance, plan)
        gates = [
            task.end_ns
            for task in sorted(schedule.tasks, key=lambda task: task.layer)
            if task.kind is TaskKind.DENSE
        ]
        waves: dict[int, list[Transfer]] = defaultdict(list)
        issued: list[Transfer] = []
        last = 0
        for task in schedule.lane(Lane.LINK):
            gate = bisect_right(gates, task.start_ns) - 1
            transfer = Transfer(
                layer=task.layer, expert=task.expert or 0, slot=task.slot, gate=min(gate, task.layer)
            )
            waves[transfer.gate if transfer.gate is not None else -1].append(transfer)
            issued.append(transfer)
            last = task.end_ns
        self._instance, self._waves = instance, waves
        self._plan = Plan(layers=plan.layers, transfers=tuple(issued), info=plan.info)
        self._link_ready_ns = max(0, last - schedule.makespan_ns)

    def start(self) -> Wave:
        """Copies that the plan starts before the first gate."""
        return Wave(layer=-1, plan=LayerPlan(), copies=tuple(self._waves[-1]))

    def gate(self, layer: int, counts: IntArray) -> Wave:
        """The plan's decisions for ``layer``.

        Raises
        ------
        ValueError
            When the true counts are not those the plan was made for.
        """
        if not np.array_equal(counts, self._instance.demand.counts[layer]):
            raise ValueError(f"expected the planned demand in layer {layer}, got other token counts")
        plan = self._plan.layers[layer]
        resident = self._instance.residents[layer]
        # Who was computed on the device has landed; of others a plan brings none.
        brought = tuple(sorted(expert for expert in plan.gpu if expert not in resident))
        return Wave(layer=layer, plan=plan, copies=tuple(self._waves[layer]), brought=brought)

    def finish(self, predictor: str | None = None) -> tuple[Instance, Plan]:
        """The instance and the plan with its gates and slots filled in; nothing was forecast."""
        return self._instance, self._plan

    @property
    def link_ready_ns(self) -> int:
        """How long after the step's end the link stays busy."""
        return self._link_ready_ns
