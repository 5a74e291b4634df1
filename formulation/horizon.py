"""Several batches in a row on one device, with residents that may change between them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from prescope.formulation.checks import require_int
from prescope.formulation.cost_model import CostModel
from prescope.formulation.demand import Demand, PredictedDemand
from prescope.formulation.instance import Instance, Tier
from prescope.formulation.plan import Plan

Residents = tuple[tuple[int, ...], ...]
"""Per layer, the experts pinned on the device, ascending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """The steps of one device, in order.

    Parameters
    ----------
    name
        Identifier in tables and files.
    costs
        Durations of all operations, the same for every step.
    demands
        True token counts of each step; at least one step.
    residents
        Experts pinned when the first step starts. Their number, by size of an expert, is the room that
        residents of later steps have.
    slots, lookahead, tier, host_computes
        As for `Instance`.
    predicted
        What a predictor said of each step beforehand, one entry per step; empty where nothing was said.
    history
        Steps seen before, from which a rule may learn: sequences, each in order of time. None of them is
        among the steps.
    """

    name: str
    costs: CostModel
    demands: tuple[Demand, ...]
    residents: Residents
    slots: int
    lookahead: int
    tier: Tier = Tier.RAM
    host_computes: bool = True
    predicted: tuple[PredictedDemand, ...] = ()
    history: tuple[tuple[Demand, ...], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "demands", tuple(self.demands))
        object.__setattr__(self, "predicted", tuple(self.predicted))
        object.__setattr__(self, "history", tuple(tuple(sequence) for sequence in self.history))
        require_int("number of steps", len(self.demands), 1)
        experts = {demand.experts for demand in self.demands}
        if len(experts) > 1:
            raise ValueError(f"expected as many experts in every step, got {sorted(experts)}")
        if self.predicted and len(self.predicted) != self.steps:
            raise ValueError(f"expected predictions of {self.steps} steps or none, got {len(self.predicted)}")
        for demand in (demand for sequence in self.history for demand in sequence):
            if demand.counts.shape != self.demands[0].counts.shape:
                raise ValueError(
                    f"expected history of the shape {self.demands[0].counts.shape}, got {demand.counts.shape}"
                )
        for step in range(self.steps):
            # Whatever is wrong with a step is said in the words of an instance.
            checked = self.instance(step, self.residents)
            if step == 0:
                object.__setattr__(self, "residents", checked.residents)

    @property
    def steps(self) -> int:
        """Number of steps."""
        return len(self.demands)

    @property
    def layers(self) -> int:
        """Number of MoE layers."""
        return self.costs.layers

    @property
    def experts(self) -> int:
        """Number of experts per layer."""
        return self.demands[0].experts

    def instance(self, step: int, residents: Residents, link_ready_ns: int = 0) -> Instance:
        """The problem of one step, given what is resident and how long the link is still busy."""
        return Instance(
            name=f"{self.name}-step{step}",
            costs=self.costs,
            demand=self.demands[step],
            residents=residents,
            slots=self.slots,
            lookahead=self.lookahead,
            tier=self.tier,
            host_computes=self.host_computes,
            link_ready_ns=link_ready_ns,
            predicted=self.predicted[step] if self.predicted else None,
        )

    def part(self, first: int, last: int) -> Horizon:
        """The steps ``first .. last - 1`` alone, from the same residents."""
        return replace(self, demands=self.demands[first:last], predicted=self.predicted[first:last])


@dataclass(frozen=True, slots=True, kw_only=True)
class HorizonPlan:
    """A plan for every step, and what is resident in it.

    Parameters
    ----------
    plans
        One per step. A copy for a layer whose gate has passed is allowed: it brings an expert for later
        steps.
    residents
        One per step; the first are the horizon's.
    method
        Who made it, for tables.
    """

    plans: tuple[Plan, ...]
    residents: tuple[Residents, ...]
    method: str = "unnamed"

    def __post_init__(self) -> None:
        if len(self.plans) != len(self.residents):
            raise ValueError(
                f"expected as many plans as residents, got {len(self.plans)} and {len(self.residents)}"
            )
