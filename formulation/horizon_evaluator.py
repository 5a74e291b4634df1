"""The exact evaluator over several steps: what each takes, and whether its residents can be there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from prescope.formulation.evaluator import evaluate
from prescope.formulation.horizon import Horizon, HorizonPlan, Residents
from prescope.formulation.horizon_swaps import SwapTimes, swap_times, swaps_fit
from prescope.formulation.schedule import Schedule, TaskKind


class InfeasibleHorizonError(ValueError):
    """The residents of a step could not have come there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HorizonSchedule:
    """A horizon with times.

    Parameters
    ----------
    step_ns
        Makespan of each step.
    total_ns
        Their sum.
    copied_bytes
        What the link carried.
    hits, uses
        Activated experts that were resident when their step began, and all activated experts.
    """

    step_ns: tuple[int, ...]
    total_ns: int
    copied_bytes: int
    hits: int
    uses: int


def link_left_ns(schedule: Schedule) -> int:
    """How long the link is still busy when a step ends."""
    ends = [task.end_ns for task in schedule.tasks if task.kind is TaskKind.COPY]
    return max(0, max(ends, default=0) - schedule.makespan_ns)


def horizon_schedules(horizon: Horizon, plan: HorizonPlan) -> Iterator[Schedule]:
    """The schedule of every step, in order; each counts time from the start of its step.

    Whether residents can have come where they are is `evaluate_horizon`'s to say.

    Raises
    ------
    InfeasibleHorizonError
        When there are not as many plans as steps.
    InfeasiblePlanError
        When the plan of a step does not fit it.
    """
    if len(plan.plans) != horizon.steps:
        raise InfeasibleHorizonError(f"expected plans for {horizon.steps} steps, got {len(plan.plans)}")
    link_ready_ns = 0
    for step, (step_plan, residents) in enumerate(zip(plan.plans, plan.residents, strict=True)):
        schedule = evaluate(horizon.instance(step, residents, link_ready_ns), step_plan)
        yield schedule
        link_ready_ns = link_left_ns(schedule)


def evaluate_horizon(horizon: Horizon, plan: HorizonPlan) -> HorizonSchedule:
    """Evaluate every step on its own and check what is resident from one to the next.

    Residents of a step were resident in the step before or were copied completely in it: keeping what is in
    a slot and giving the place of a resident to the slots instead exchanges two pointers and takes no time.
    The resident that goes must have done its work before the next copy takes the slot. Places have sizes, so
    of the experts of one size there are never more than at the beginning. A link that is still busy at the
    end of a step delays the copies of the next.

    Raises
    ------
    InfeasibleHorizonError
        When residents do not follow from the step before, or are too many.
    InfeasiblePlanError
        When the plan of a step does not fit it.
    """
    if len(plan.plans) != horizon.steps:
        raise InfeasibleHorizonError(f"expected plans for {horizon.steps} steps, got {len(plan.plans)}")
    if plan.residents[0] != horizon.residents:
        raise InfeasibleHorizonError("expected the horizon's own residents in step 0, got others")
    room = _room(horizon, horizon.residents)
    step_ns: list[int] = []
    copied_bytes = hits = uses = link_ready_ns = 0
    before: frozenset[tuple[int, int]] = frozenset()
    times: SwapTimes | None = None
    for step, (step_plan, residents) in enumerate(zip(plan.plans, plan.residents, strict=True)):
        keys = frozenset((layer, expert) for layer, row in enumerate(residents) for expert in row)
        if times is not None:
            _check(horizon, step, keys, before, times, room)
        schedule = evaluate(horizon.instance(step, residents, link_ready_ns), step_plan)
        step_ns.append(schedule.makespan_ns)
        link_ready_ns = link_left_ns(schedule)
        before, times = keys, swap_times(schedule, horizon.experts)
        copied_bytes += sum(horizon.costs.expert_bytes[copy.layer] for copy in step_plan.transfers)
        rows, experts = horizon.demands[step].counts.nonzero()
        active = set(zip(rows.tolist(), experts.tolist(), strict=True))
        uses += len(active)
        hits += len(active & keys)
    return HorizonSchedule(
        step_ns=tuple(step_ns), total_ns=sum(step_ns), copied_bytes=copied_bytes, hits=hits, uses=uses
    )


def _room(horizon: Horizon, residents: Residents) -> Counter[int]:
    room: Counter[int] = Counter()
    for layer, row in enumerate(residents):
        room[horizon.costs.expert_bytes[layer]] += len(row)
    return room


def _check(
    horizon: Horizon,
    step: int,
    keys: frozenset[tuple[int, int]],
    before: frozenset[tuple[int, int]],
    times: SwapTimes,
    room: Counter[int],
) -> None:
    missing = sorted(keys - before - times.landed)
    if missing:
        raise InfeasibleHorizonError(
            f"expected residents of step {step} to be resident or copied in step {step - 1}, got layer "
            f"{missing[0][0]} expert {missing[0][1]} and {len(missing) - 1} others that are neither"
        )
    for size, places in room.items():
        here, there = (
            {key for key in some if horizon.costs.expert_bytes[key[0]] == size} for some in (before, keys)
        )
        if len(there) > places:
            raise InfeasibleHorizonError(
                f"expected at most {places} residents of {size} bytes in step {step}, got {len(there)}"
            )
        taken_ns = [int(times.taken_ns[key]) for key in there - here]
        leave_ns = [int(times.leave_ns[key]) for key in here - there]
        if not swaps_fit(taken_ns, leave_ns, places - len(here)):
            raise InfeasibleHorizonError(
                f"expected a place for every new resident of step {step} before the next copy takes its "
                f"slot in step {step - 1}, got {len(taken_ns)} that come and {len(leave_ns)} that "
                "leave too late"
            )
