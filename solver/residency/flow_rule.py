"""The flow's assignment as a residency rule: a strong plan for known demand, judged by executing it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from prescope.formulation.demand import FloatArray, IntArray
from prescope.formulation.evaluator import evaluate
from prescope.formulation.horizon import Horizon, HorizonPlan
from prescope.formulation.horizon_evaluator import link_left_ns
from prescope.formulation.schedule import Lane, TaskKind
from prescope.solver.residency.flow import Prices
from prescope.solver.residency.load_flow import Itinerary, best_itinerary
from prescope.solver.residency.rules import Belady
from prescope.solver.residency.uses import Uses, all_uses, by_size


class FlowRule:
    """Keeps, and brings, whom the best flow of the places keeps at given prices.

    What the flow leaves open is filled by the next use, as `Belady` does.

    Parameters
    ----------
    horizon
        The steps, their true demand included.
    prices
        What the lanes' time is worth, for example those of `horizon_bound`.
    executed
        A plan of the horizon, whose copies and idle link time the flow takes for granted: what it keeps is
        kept from these. Best made by the same planner.
    """

    name = "flow"

    def __init__(self, horizon: Horizon, prices: Prices, executed: HorizonPlan) -> None:
        copied, idle_ns = _made_anyway(horizon, executed)
        first = [
            layer * horizon.experts + expert for layer, row in enumerate(horizon.residents) for expert in row
        ]
        self._parts: list[tuple[Uses, Itinerary]] = []
        for size, uses in by_size(horizon, all_uses(horizon)):
            here = [key for key in first if horizon.costs.expert_bytes[key // horizon.experts] == size]
            copy_ns = max(1, int(uses.copy_ns.max(initial=1)))
            self._parts.append(
                (
                    uses,
                    best_itinerary(
                        uses,
                        worth_ns=_worth_ns(uses, prices, horizon.host_computes),
                        brought=copied[uses.time, uses.key % horizon.experts],
                        window=np.diff(np.cumsum([0, *idle_ns]) // copy_ns),
                        layers=horizon.layers,
                        places=len(here),
                        first_keys=here,
                    ),
                )
            )
        self._shape = horizon.layers, horizon.experts
        self._next_use = Belady([demand.counts for demand in horizon.demands])
        self._step = 0

    def observe(self, counts: IntArray) -> None:
        """See `ResidencyRule.observe`."""
        self._next_use.observe(counts)
        self._step += 1

    def scores(self) -> FloatArray | None:
        """See `ResidencyRule.scores`."""
        scores: FloatArray = np.reciprocal(1.0 + self._next_use.next_use())
        for uses, itinerary in self._parts:
            scores.reshape(-1)[itinerary.there(uses, self._step * self._shape[0])] += 1.0
        return scores


def _worth_ns(uses: Uses, prices: Prices, host_computes: bool) -> IntArray:
    """What a use that finds its expert resident saves."""
    without = prices.gpu * uses.gpu_ns + prices.link * uses.copy_ns
    if host_computes:
        without = np.minimum(without, prices.cpu * uses.cpu_ns)
    worth: IntArray = np.maximum(0, without - prices.gpu * uses.gpu_ns).astype(np.int64)
    return worth


def _made_anyway(horizon: Horizon, executed: HorizonPlan) -> tuple[npt.NDArray[np.bool_], list[int]]:
    """Copies that are used, bool ``[steps * layers, E]``, and the link's idle time, per step and layer."""
    copied = np.zeros((horizon.steps * horizon.layers, horizon.experts), dtype=np.bool_)
    idle_ns: list[int] = []
    ready_ns = 0
    for step, (plan, residents) in enumerate(zip(executed.plans, executed.residents, strict=True)):
        schedule = evaluate(horizon.instance(step, residents, ready_ns), plan)
        used = {
            (task.layer, task.expert)
            for task in schedule.lane(Lane.GPU)
            if task.kind is TaskKind.COMPUTE and task.slot is not None
        }
        busy = [(0, ready_ns)]
        for task in schedule.lane(Lane.LINK):
            if (task.layer, task.expert) in used:
                copied[step * horizon.layers + task.layer, task.expert] = True
                busy.append((task.start_ns, task.end_ns))
        begin_ns = 0
        for end_ns in schedule.layer_end_ns:
            idle_ns.append(end_ns - begin_ns - _overlap_ns(busy, begin_ns, end_ns))
            begin_ns = end_ns
        ready_ns = link_left_ns(schedule)
    return copied, idle_ns


def _overlap_ns(busy: Iterable[tuple[int, int]], begin_ns: int, end_ns: int) -> int:
    return sum(max(0, min(last, end_ns) - max(first, begin_ns)) for first, last in busy)
