"""Why a step took longer than it had to: from the proved lower bound up to what happened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from prescope.formulation import InfeasiblePlanError, Instance, Plan, makespan_ns
from prescope.inspection.spent import Part
from prescope.inspection.view import StepView

_BOUND = "no plan for this step can be faster (proved)"
_UNPROVED = (
    "from the bound to the best plan found with the demand known: nobody knows whether it can be saved"
)
_CHOICES = "other experts copied, another side or another order than in that plan"
_LATE = "copies issued later than the lookahead allows, mostly because their need was not known"
_UNUSED = "copies whose expert the device did not compute"
_PREDICTIONS = "the host predicting instead of computing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waterfall:
    """A sum from the lower bound to the makespan.

    Parameters
    ----------
    parts
        In order; their lengths add up to ``makespan_ns`` exactly. Only the last, the difference of what
        happened to what was planned, may be negative.
    lower_bound_ns, planned_ns, makespan_ns
        The first part; the exact evaluator's; what happened.
    """

    parts: tuple[Part, ...]
    lower_bound_ns: int
    planned_ns: int
    makespan_ns: int


def waterfall(step: StepView, *, method: str = "dp-fast") -> Waterfall | None:
    """Divide a step's makespan into its lower bound and what was lost above it.

    The losses are what the exact evaluator gives back when they are taken away one after the other: first the
    predictions' host time, then the unused copies, then all decisions to issue a copy later than the
    lookahead allows; then everything is planned anew with the demand known.

    Parameters
    ----------
    step
        The step.
    method
        What plans it anew.

    Returns
    -------
    Waterfall or None
        ``None`` without instance and plan, and where the plan leans on what an earlier step left behind.
    """
    from prescope.solver import Limits, get_method, lower_bound

    if step.instance is None or step.plan is None:
        return None
    try:
        rungs = list(_rungs(step.instance, step.plan))
    except InfeasiblePlanError:
        return None
    free = _without_predictions(step.instance)
    draft = get_method(method).plan(free, limits=Limits(), seed=0, hint=step.plan)
    rungs.append(rungs[-1] if draft.plan is None else makespan_ns(free, draft.plan))
    planned_ns = step.planned.makespan_ns if step.planned is not None else rungs[0]
    # Taking away cannot cost: where slots are given to whoever comes first it may by accident.
    least = [planned_ns]
    for rung in rungs[1:]:
        least.append(min(rung, least[-1]))
    bound_ns = lower_bound(free, upper_ns=least[-1])
    happened, final_ns = list(step.schedules)[-1], step.schedule.makespan_ns
    steps = (*least, bound_ns)
    predictions, unused, late, choices, unproved = (
        above - below for above, below in zip(steps[:-1], steps[1:], strict=True)
    )
    parts = [
        Part(name="lower bound", ns=bound_ns, about=_BOUND),
        Part(name="unproved", ns=unproved, about=_UNPROVED),
        Part(name="choices", ns=choices, about=_CHOICES),
        Part(name="late decisions", ns=late, about=_LATE),
        Part(name="unused copies", ns=unused, about=_UNUSED),
        Part(name="predictions", ns=predictions, about=_PREDICTIONS),
    ]
    if happened != "planned":
        about = f"the {happened} step against the plan of the exact evaluator"
        parts.append(Part(name=f"{happened} minus planned", ns=final_ns - planned_ns, about=about))
    return Waterfall(parts=tuple(parts), lower_bound_ns=bound_ns, planned_ns=planned_ns, makespan_ns=final_ns)


def add_waterfalls(waterfalls: Iterable[Waterfall]) -> Waterfall | None:
    """The sum over several steps, part by part; ``None`` without any."""
    found = list(waterfalls)
    if not found:
        return None
    parts: dict[str, Part] = {}
    for one in found:
        for part in one.parts:
            before = parts.get(part.name)
            parts[part.name] = part if before is None else replace(before, ns=before.ns + part.ns)
    return Waterfall(
        parts=tuple(parts.values()),
        lower_bound_ns=sum(one.lower_bound_ns for one in found),
        planned_ns=sum(one.planned_ns for one in found),
        makespan_ns=sum(one.makespan_ns for one in found),
    )


def _rungs(instance: Instance, plan: Plan) -> Iterator[int]:
    """Makespans of the plan with one more burden taken away each."""
    yield makespan_ns(instance, plan)
    free = _without_predictions(instance)
    yield makespan_ns(free, plan)
    used = {(layer, expert) for layer, row in enumerate(plan.layers) for expert in row.gpu}
    copies = tuple(copy for copy in plan.transfers if (copy.layer, copy.expert) in used)
    yield makespan_ns(free, replace(plan, transfers=copies))
    early = tuple(replace(copy, gate=None) for copy in copies)
    yield makespan_ns(free, replace(plan, transfers=early))


def _without_predictions(instance: Instance) -> Instance:
    return replace(instance, prediction_ns=(), predicted=None)
