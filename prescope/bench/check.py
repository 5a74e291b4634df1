"""Hold stored plans to what their rows say, with the exact evaluator as the judge."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from prescope.bench.cases import Case
from prescope.bench.problems import AnyPlan, cost_of, proved_bound, stored_plan
from prescope.bench.row import BenchRow, RowStatus, relative_gap
from prescope.bench.row_file import read_rows
from prescope.bench.sweep import PLANS, plan_file_name
from prescope.formulation.horizon import Horizon, HorizonPlan
from prescope.formulation.horizon_evaluator import evaluate_horizon
from prescope.solver.registry import PROVERS


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFault:
    """A row that its plan does not bear out.

    Parameters
    ----------
    instance, method, limit, seed
        The run.
    problem
        What was expected and what was got.
    """

    instance: str
    method: str
    limit: str
    seed: int
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOutcome:
    """What was checked and what was found.

    Parameters
    ----------
    checked
        Plans evaluated again.
    faults
        Rows refused; empty when all is in order.
    trusted
        Rows whose bound an exact method says it proved, better than any proved here: their gaps rest on its
        word.
    """

    checked: int
    faults: tuple[RunFault, ...]
    trusted: int = 0


_PLANLESS = (RowStatus.NO_PLAN, RowStatus.UNSUITABLE, RowStatus.ERROR)


def check_runs(
    folder: str | os.PathLike[str],
    cases: Iterable[Case],
    *,
    progress: Callable[[int, int], None] | None = None,
) -> CheckOutcome:
    """Evaluate every stored plan of a sweep again.

    A row is refused when its instance is not among the cases or has other content, when its plan is missing,
    altered, for another problem or infeasible, when the evaluator's cost is not the row's, when the cost is
    below the bound of the row or of the case, when the row's bound can be proved by neither the case nor
    `prescope.solver.lower_bound` (of a horizon, `prescope.solver.residency.horizon_bound`) and is no exact
    method's, or when its gaps do not follow from its numbers.
    Plan files are found by the run's name, never by a path in the table.

    Parameters
    ----------
    folder
        Of the sweep.
    cases
        The instances, from a trusted source.
    progress
        Called with the rows checked and all rows.

    Raises
    ------
    ValueError
        When the table itself cannot be read.
    """
    root, known = Path(folder), {case.name: case for case in cases}
    rows = read_rows(root)
    faults, checked, trusted = [], 0, 0
    for number, row in enumerate(rows):
        if progress is not None:
            progress(number, len(rows))
        try:
            if _check(root, row, known):
                trusted += _rests_on_word(row, known[row.instance])
                checked += 1
        except ValueError as error:
            faults.append(RunFault(**row.key._asdict(), problem=str(error)))
    return CheckOutcome(checked=checked, faults=tuple(faults), trusted=trusted)


def _rests_on_word(row: BenchRow, case: Case) -> bool:
    """Whether the bound of a checked row is better than any proved here; only exact methods may say so."""
    known_ns = -1 if case.lower_bound_ns is None else case.lower_bound_ns
    if row.lower_bound_ns is None or row.lower_bound_ns <= known_ns:
        return False
    if row.lower_bound_ns <= proved_bound(case.instance, upper_ns=row.makespan_ns):
        return False
    if row.lower_bound_ns <= proved_bound(case.instance):
        return False
    if row.method not in PROVERS:
        raise ValueError(
            f"expected a bound that can be proved again, got {row.lower_bound_ns} ns by {row.lower_bound_by}"
        )
    return True


def _check(root: Path, row: BenchRow, cases: dict[str, Case]) -> bool:
    case = cases.get(row.instance)
    if case is None:
        raise ValueError(
            f"expected the instance {row.instance!r} in the library or among the files, got neither"
        )
    if case.sha256 != row.instance_sha256:
        raise ValueError(f"expected an instance with digest {case.sha256}, got {row.instance_sha256}")
    if row.makespan_ns is None:
        if row.plan or row.status not in _PLANLESS:
            raise ValueError(f"expected a makespan with the status {row.status.value!r}, got none")
        return False
    name = plan_file_name(row.key)
    if row.plan != name:
        raise ValueError(f"expected the plan in {name}, got {row.plan!r}")
    plan, sha256 = stored_plan(root / PLANS / name, case.instance, digest=case.sha256)
    if sha256 != row.plan_sha256:
        raise ValueError(f"expected a plan with checksum {row.plan_sha256}, got {sha256}")
    cost_ns = _evaluated(row, case, plan)
    if cost_ns != row.makespan_ns:
        raise ValueError(
            f"expected {row.makespan_ns} ns as the row says, got {cost_ns} ns from the evaluator"
        )
    for whose, bound_ns in (("row", row.lower_bound_ns), ("library", case.lower_bound_ns)):
        if bound_ns is not None and cost_ns < bound_ns:
            raise ValueError(
                f"expected at least the {whose}'s lower bound of {bound_ns} ns, got {cost_ns} ns"
            )
    for name, reference_ns in (("gap_to_bound", row.lower_bound_ns), ("gap_to_best", row.best_known_ns)):
        gap = relative_gap(cost_ns, reference_ns)
        if getattr(row, name) != gap:
            raise ValueError(f"expected a {name} of {gap}, got {getattr(row, name)}")
    if (row.status is RowStatus.OPTIMAL) != (cost_ns == row.lower_bound_ns):
        raise ValueError(f"expected a status that fits the bound, got {row.status.value!r}")
    return True


def _evaluated(row: BenchRow, case: Case, plan: AnyPlan) -> int:
    """Cost of a plan; of a horizon, what else the row says of its steps is checked with it."""
    found: tuple[int | None, ...] = (None, None, None, None)
    if isinstance(case.instance, Horizon) and isinstance(plan, HorizonPlan):
        steps = evaluate_horizon(case.instance, plan)
        cost_ns, found = steps.total_ns, (case.instance.steps, steps.hits, steps.uses, steps.copied_bytes)
    else:
        cost_ns = cost_of(case.instance, plan)
    told = (row.steps, row.hits, row.uses, row.copied_bytes)
    if told != found:
        raise ValueError(f"expected steps, hits, uses and copied bytes {found}, got {told}")
    return cost_ns
