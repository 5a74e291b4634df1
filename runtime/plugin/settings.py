"""How an engine runs, and what it keeps of a step."""

from __future__ import annotations

from dataclasses import dataclass

from prescope.formulation import CostModel, Instance, Plan, Schedule, Tier
from prescope.formulation.forecast import Forecast
from prescope.runtime.control.retention import Exchange
from prescope.runtime.program import Program
from prescope.runtime.trace import StepTrace
from prescope.solver.online import GatePolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """How an engine runs; what `prescope.attach` was asked for, made definite.

    Parameters
    ----------
    policy
        Name of the gate policy, or of the solver method where demand is known beforehand.
    gate_policy
        Decides at the gates; ``None`` where every step is planned as a whole from known demand.
    costs, preset
        The cost model and its name.
    tier, host_computes
        Where weights rest and whether the host runs experts in place.
    experts
        Experts per layer.
    residents, slots, lookahead
        As for `prescope.formulation.Instance`, the residents those of the first step; over a pool of rows
        nothing is pinned and every row is a slot.
    residency
        What keeps its place on the device: ``"pinned"``, or the rule by which residents change or by which a
        pool keeps its contents.
    expert_memory_bytes
        Device memory granted for experts.
    seed
        Seed of the solver.
    """

    policy: str
    gate_policy: GatePolicy | None
    costs: CostModel
    preset: str
    tier: Tier
    host_computes: bool
    experts: int
    residents: tuple[tuple[int, ...], ...]
    slots: int
    lookahead: int
    residency: str
    expert_memory_bytes: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepRecord:
    """One step in full: what was decided, planned, compiled and executed.

    Parameters
    ----------
    instance, plan
        The decided step.
    planned
        The exact evaluator's schedule of it.
    program
        What it was compiled to.
    trace
        What happened.
    tokens
        Real tokens.
    exchanges
        Who became resident for the next step, and in whose place.
    """

    instance: Instance
    plan: Plan
    planned: Schedule
    program: Program
    trace: StepTrace
    tokens: int
    exchanges: tuple[Exchange, ...] = ()

    @property
    def forecasts(self) -> tuple[Forecast | None, ...]:
        """Per layer, what was said of it at the gate before; ``None`` where nothing was."""
        predicted = self.instance.predicted
        if predicted is None:
            return ()
        pairs = zip(predicted.expected_tokens[0], predicted.probabilities[0], strict=True)
        return tuple(
            Forecast(expected_tokens=tokens, probability=chance) if chance.any() else None
            for tokens, chance in pairs
        )
