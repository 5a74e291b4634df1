"""One run, as a worker process carries it out."""

from __future__ import annotations

import sys
import traceback
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, replace

from prescope.bench.pairs import is_pair
from prescope.bench.planning import Planned, Replan, plan_problem
from prescope.bench.problems import AnyPlan, Problem, foretold, size_of
from prescope.bench.row import BenchRow, Kind, RowStatus, RunKey, relative_gap
from prescope.bench.settings import parse_limit
from prescope.bench.versions import this_machine
from prescope.formulation import Plan
from prescope.solver import Incumbent, UnsuitableInstanceError

# A reader of CSV refuses cells of more than 131,072 letters.
MAX_ERROR = 2000
MAX_INCUMBENTS = 2000
DIED = "the worker process died: out of memory, killed, or a crash in compiled code"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTask:
    """What a worker needs to know.

    Parameters
    ----------
    set, instance, instance_sha256
        The problem.
    method, seed, limit
        What to run.
    hint
        A plan to give the method.
    replan
        How often predicted demand is planned.
    lower_bound_ns, lower_bound_by, best_known_ns
        What is known beforehand.
    """

    set: str
    instance: Problem
    instance_sha256: str
    method: str
    seed: int
    limit: str
    hint: Plan | None
    replan: Replan
    lower_bound_ns: int | None
    lower_bound_by: str | None
    best_known_ns: int | None

    @property
    def key(self) -> RunKey:
        """What tells this run from the others of its sweep."""
        return RunKey(self.instance.name, self.method, self.limit, self.seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """What a worker sends back: the row, and the plan that belongs beside it."""

    row: BenchRow
    plan: AnyPlan | None = None


def run_task(task: RunTask) -> RunOutcome:
    """Carry out one run; a solver that breaks is an outcome, not an error."""
    try:
        # What a method prints would fall into the middle of a JSON answer.
        with redirect_stdout(sys.stderr):
            planned = plan_problem(
                task.instance,
                task.method,
                limits=parse_limit(task.limit),
                seed=task.seed,
                hint=task.hint,
                replan=task.replan,
                bounded=task.lower_bound_ns is not None,
            )
    except UnsuitableInstanceError as error:
        return RunOutcome(row=replace(failed_row(task, str(error)[:MAX_ERROR]), status=RowStatus.UNSUITABLE))
    except (Exception, SystemExit) as error:
        return RunOutcome(row=failed_row(task, _told(error)))
    return RunOutcome(row=_row(task, planned), plan=planned.plan)


def failed_row(task: RunTask, error: str) -> BenchRow:
    """The row of a run that ended with an error."""
    return BenchRow(
        set=task.set,
        instance=task.instance.name,
        instance_sha256=task.instance_sha256,
        **size_of(task.instance)._asdict(),
        method=task.method,
        seed=task.seed,
        limit=task.limit,
        kind=Kind.REALISED if foretold(task.instance) and not is_pair(task.method) else Kind.PLANNED,
        status=RowStatus.ERROR,
        lower_bound_ns=task.lower_bound_ns,
        lower_bound_by=task.lower_bound_by or "",
        best_known_ns=task.best_known_ns,
        error=error,
        **asdict(this_machine()),
    )


def _row(task: RunTask, planned: Planned) -> BenchRow:
    bound_ns, bound_by = planned.lower_bound_ns or 0, f"this run of {task.method}"
    if task.lower_bound_ns is not None and task.lower_bound_ns >= bound_ns:
        bound_ns, bound_by = task.lower_bound_ns, task.lower_bound_by or "the library"
    made, result, statistics = planned.makespan_ns, planned.result, planned.statistics
    steps = planned.steps
    return replace(
        failed_row(task, ""),
        kind=planned.kind,
        status=_status(made, bound_ns),
        makespan_ns=made,
        lower_bound_ns=bound_ns,
        lower_bound_by=bound_by,
        own_bound_ns=planned.lower_bound_ns,
        gap_to_bound=relative_gap(made, bound_ns),
        gap_to_best=relative_gap(made, task.best_known_ns),
        hits=None if steps is None else steps.hits,
        uses=None if steps is None else steps.uses,
        copied_bytes=None if steps is None else steps.copied_bytes,
        plan_time_ns=planned.time_ns,
        bound_time_ns=statistics.bound_time_ns,
        deterministic_time=statistics.deterministic_time,
        effort=statistics.effort,
        hint=statistics.hint.value,
        incumbents=" ".join(
            f"{one.time_ns}:{one.makespan_ns}" for one in _some(() if result is None else result.incumbents)
        ),
    )


def _status(made_ns: int | None, bound_ns: int) -> RowStatus:
    if made_ns is None:
        return RowStatus.NO_PLAN
    if made_ns < bound_ns:
        return RowStatus.BOUND_VIOLATED
    return RowStatus.OPTIMAL if made_ns == bound_ns else RowStatus.FEASIBLE


def _told(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    where = f" (at {frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text[:MAX_ERROR] + where


def _some(incumbents: tuple[Incumbent, ...]) -> tuple[Incumbent, ...]:
    """All of them unless they are thousands: then without the middle, so that a cell stays readable."""
    half = MAX_INCUMBENTS // 2
    return incumbents if len(incumbents) <= 2 * half else incumbents[:half] + incumbents[-half:]
