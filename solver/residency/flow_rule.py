"""The flow's assignment as a residency rule: a strong plan for known demand, judged by executing it."""

from __future__ import annotations

import numpy as np

from prescope.formulation.demand import FloatArray, IntArray
from prescope.formulation.horizon import Horizon
from prescope.solver.residency.flow import Prices, ResidencyFlow, uses_between
from prescope.solver.residency.uses import all_uses, by_size


class FlowRule:
    """Keeps whom the cheapest flow of the places (slots apart) keeps at given prices.

    Parameters
    ----------
    horizon
        The steps, their true demand included.
    prices
        What the lanes' time is worth, for example those of `horizon_bound`.
    """

    name = "flow"

    def __init__(self, horizon: Horizon, prices: Prices) -> None:
        first = [
            layer * horizon.experts + expert for layer, row in enumerate(horizon.residents) for expert in row
        ]
        self._parts = []
        for size, uses in by_size(horizon, all_uses(horizon)):
            here = [key for key in first if horizon.costs.expert_bytes[key // horizon.experts] == size]
            flow = ResidencyFlow(
                uses, places=len(here), first_keys=here, host_computes=horizon.host_computes
            ).solve(prices)
            self._parts.append((uses, flow.kept))
        self._shape = horizon.layers, horizon.experts
        self._layers = horizon.layers
        self._step = 0

    def observe(self, counts: IntArray) -> None:
        """See `ResidencyRule.observe`."""
        self._step += 1

    def scores(self) -> FloatArray | None:
        """See `ResidencyRule.scores`."""
        scores = np.zeros(self._shape)
        for uses, kept in self._parts:
            scores.reshape(-1)[uses_between(kept, uses, self._step * self._layers)] = 1.0
        return scores
