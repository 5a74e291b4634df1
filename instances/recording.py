"""Steps that were run, in full: what was asked, decided, planned and what happened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from prescope.formulation.checks import require_int
from prescope.formulation.forecast import Forecast
from prescope.formulation.instance import Instance
from prescope.formulation.plan import Plan
from prescope.formulation.schedule import Schedule

SCHEDULES = ("planned", "simulated", "executed", "measured")
"""Names of a step's schedules: by the exact evaluator, by the event simulator in virtual time, in slow
motion (divided by its dilation), and in real time."""

PHASES = ("", "prefill", "decode")
"""What a step was for; empty where it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordedStep:
    """One step.

    Parameters
    ----------
    index
        Its number in the run.
    instance, plan
        The decided step; the instance has the true demand and the residents of this step.
    schedules
        By name, of `SCHEDULES`; at least one.
    tokens
        Real tokens of the batch.
    phase
        One of `PHASES`.
    forecasts
        Per layer what was said of it at the gate before, ``None`` where nothing was; empty where nothing is
        known of any.
    dilation
        Real time per time of an executed schedule; 1 in virtual and in real time.
    began_unix_ns
        When the step began, in nanoseconds of Unix time; ``None`` in virtual time.
    notes
        Text pairs.
    """

    index: int
    instance: Instance
    plan: Plan
    schedules: Mapping[str, Schedule]
    tokens: int
    phase: str = ""
    forecasts: tuple[Forecast | None, ...] = ()
    dilation: float = 1.0
    began_unix_ns: int | None = None
    notes: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_int("index", self.index, 0)
        require_int("tokens", self.tokens, 0)
        if not self.schedules:
            raise ValueError("expected at least one schedule of a step, got none")
        for name, schedule in self.schedules.items():
            if name not in SCHEDULES:
                raise ValueError(f"expected schedules named {', '.join(SCHEDULES)}, got {name!r}")
            check_schedule(name, schedule, layers=self.instance.layers, experts=self.instance.experts)
        if self.phase not in PHASES:
            raise ValueError(f"expected a phase among {PHASES}, got {self.phase!r}")
        if self.forecasts and len(self.forecasts) != self.instance.layers:
            raise ValueError(
                f"expected no forecasts or {self.instance.layers}, one a layer, got {len(self.forecasts)}"
            )
        for layer, forecast in enumerate(self.forecasts):
            if forecast is not None and forecast.probability.shape != (self.instance.experts,):
                raise ValueError(
                    f"expected forecasts of {self.instance.experts} experts, "
                    f"got {forecast.probability.shape[0]} in layer {layer}"
                )
        if not 0 < self.dilation < float("inf"):
            raise ValueError(f"expected a dilation > 0, got {self.dilation}")
        if self.began_unix_ns is not None:
            require_int("began_unix_ns", self.began_unix_ns, 0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recording:
    """A run, step by step.

    Parameters
    ----------
    steps
        In order; at least one.
    facts
        Text pairs: versions, model, whose costs, policy, predictor, machine, what is emulated.
    """

    steps: tuple[RecordedStep, ...]
    facts: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", tuple(self.steps))
        if not self.steps:
            raise ValueError("expected a recording of at least one step, got none")
        shapes = {step.instance.demand.counts.shape for step in self.steps}
        if len(shapes) > 1:
            raise ValueError(f"expected as many layers and experts in every step, got {sorted(shapes)}")
        numbers = [step.index for step in self.steps]
        if numbers != sorted(set(numbers)):
            raise ValueError(f"expected ascending numbers of steps, got {numbers[:20]}")


def said_before(instance: Instance) -> tuple[Forecast | None, ...]:
    """What an instance's prediction said of each layer at the gate before; empty without a prediction."""
    predicted = instance.predicted
    if predicted is None:
        return ()
    tokens, likely = predicted.expected_tokens[0], predicted.probabilities[0]
    return tuple(
        Forecast(expected_tokens=tokens[layer], probability=likely[layer]) for layer in range(instance.layers)
    )


def check_schedule(name: str, schedule: Schedule, *, layers: int, experts: int | None = None) -> None:
    """Refuse a schedule that says what cannot be: a ``ValueError`` names what.

    Parameters
    ----------
    name, schedule
        Its name for the message, and the schedule.
    layers, experts
        What its tasks are of; ``None`` where the number of experts is not known.
    """
    ends = schedule.layer_end_ns
    if len(ends) != layers:
        raise ValueError(f"expected {layers} layers in the {name} schedule, got {len(ends)}")
    if min(schedule.makespan_ns, *ends) < 0 or any(a > b for a, b in pairwise(ends)):
        raise ValueError(
            f"expected a makespan >= 0 and layers that end one after the other, "
            f"got {schedule.makespan_ns} ns and {ends[:20]} in the {name} schedule"
        )
    before_ns = None
    for task in schedule.tasks:
        expert = task.expert or 0
        if not 0 <= task.layer < layers or expert < 0 or (experts is not None and expert >= experts):
            raise ValueError(
                f"expected tasks of {layers} layers and {'the' if experts is None else experts} experts, "
                f"got layer {task.layer} expert {task.expert} in the {name} schedule"
            )
        if task.end_ns < task.start_ns:
            raise ValueError(
                f"expected tasks that end after they start, got {task.start_ns} to {task.end_ns} ns "
                f"in the {name} schedule"
            )
        if before_ns is not None and task.start_ns < before_ns:
            raise ValueError(
                f"expected tasks in the order of their starts, got {task.start_ns} after {before_ns} ns "
                f"in the {name} schedule"
            )
        before_ns = task.start_ns
