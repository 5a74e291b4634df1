"""What an exact method starts from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from time import perf_counter_ns

from prescope.formulation.evaluator import makespan_ns
from prescope.formulation.instance import Instance
from prescope.formulation.plan import Plan
from prescope.formulation.workload import Workload, layer_tables, workload
from prescope.solver.build_plan import build_plan
from prescope.solver.errors import SolverError
from prescope.solver.hints import read_hint
from prescope.solver.methods.dp import LeadDp
from prescope.solver.quick import quick_plan
from prescope.solver.result import HintUse, Limits, Statistics
from prescope.solver.trajectory import Incumbent


class Start(StrEnum):
    """What the solver is handed.

    ``DP``: the better of the dp plan and the given hint after local search (dp is given the hint). ``HINT``:
    the given hint, adapted, and nothing better; the dp plan where there is none. ``NOTHING``: no plan at all,
    to see what the solver does alone.
    """

    DP = "dp"
    HINT = "hint"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstPlan:
    """The plan to start from.

    Parameters
    ----------
    plan, makespan_ns
        ``None`` with `Start.NOTHING`.
    horizon_ns
        Makespan of some plan: of this one, or of all work one after another.
    statistics
        What became of the hint.
    incumbents
        The plan with the time since the method began.
    """

    plan: Plan | None
    makespan_ns: int | None
    horizon_ns: int
    statistics: Statistics
    incumbents: tuple[Incumbent, ...]


def first_plan(
    instance: Instance,
    *,
    start: Start,
    planner: LeadDp,
    limits: Limits,
    seed: int,
    hint: Plan | None,
    begin_ns: int,
) -> FirstPlan:
    """Make it; ``begin_ns`` is `time.perf_counter_ns` when the method began."""
    if start is Start.NOTHING:
        ignored = HintUse.ABSENT if hint is None else HintUse.IGNORED
        return FirstPlan(
            plan=None,
            makespan_ns=None,
            horizon_ns=serial_horizon(workload(instance)),
            statistics=Statistics(hint=ignored),
            incumbents=(),
        )
    plan, statistics = None, Statistics()
    if start is Start.HINT and hint is not None:
        work = workload(instance)
        placed, _, _ = quick_plan(work, layer_tables(work))
        read = read_hint(instance, work, hint, placed)
        statistics = Statistics(
            hint=read.use,
            hint_makespan_ns=read.makespan_ns,
            hint_changes=read.changes,
            hint_refused=read.refused,
        )
        if read.choice is not None:
            plan = build_plan(work, read.choice)
    if plan is None:
        draft = planner.plan(instance, limits=limits, seed=seed, hint=hint)
        plan = draft.plan
        statistics = draft.statistics
    if plan is None:
        raise SolverError(f"expected a first plan for {instance.name} from {planner.name}, got none")
    reached = makespan_ns(instance, plan)
    known = Incumbent(time_ns=perf_counter_ns() - begin_ns, makespan_ns=reached, deterministic_time=0.0)
    return FirstPlan(
        plan=plan, makespan_ns=reached, horizon_ns=reached, statistics=statistics, incumbents=(known,)
    )


def serial_horizon(work: Workload) -> int:
    """When everything is done if every expert is copied and computed on both sides, one after another."""
    copies = work.copy_ns * (work.missing_offsets[1:] - work.missing_offsets[:-1])
    parts = (work.dense_ns, work.prediction_ns, copies, work.missing_gpu_ns, work.resident_gpu_ns)
    total = sum(int(part.sum()) for part in parts) + int(work.link_ready_ns)
    if work.host_computes:
        total += int(work.missing_cpu_ns.sum()) + int(work.resident_cpu_ns.sum())
    return total
