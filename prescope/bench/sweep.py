"""Run every method on every instance, resumable, one durable row per run."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from prescope.bench.cases import Case
from prescope.bench.engines import Engine, local_engine
from prescope.bench.pairs import GATE, is_pair
from prescope.bench.problems import cost_of, foretold, store_plan
from prescope.bench.row import BenchRow, RowStatus, RunKey
from prescope.bench.row_file import ROWS, RowFile, read_rows, rewrite_rows
from prescope.bench.settings import BenchSettings, Hints
from prescope.bench.sweep_file import differences, read_sweep, sweep_document, write_sweep
from prescope.bench.task import RunOutcome, RunTask
from prescope.bench.versions import this_machine
from prescope.folder_lock import folder_lock
from prescope.formulation import Plan
from prescope.formulation.horizon import Horizon

PLANS = "plans"
Progress = Callable[[BenchRow | None, int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOutcome:
    """What a call of `run_bench` did.

    Parameters
    ----------
    rows
        All rows of the sweep asked for, in its order.
    ran
        How many of them this call added.
    """

    rows: tuple[BenchRow, ...]
    ran: int


def run_bench(
    cases: Sequence[Case],
    settings: BenchSettings,
    folder: str | os.PathLike[str],
    *,
    engine: Engine | None = None,
    accept_changes: bool = False,
    retry_errors: bool = False,
    progress: Progress | None = None,
) -> BenchOutcome:
    """Run what the folder does not have yet.

    Rows go to ``runs.csv`` and plans to ``plans/``, each on the disk before the next is taken in; a killed
    call loses the runs under way at most.

    Parameters
    ----------
    cases, settings
        What to run.
    folder
        For the results; made when missing.
    engine
        Where to run; by default in this process.
    accept_changes
        Go on although settings, versions or instances are not those of the rows in the folder. Rows of
        instances whose content changed are dropped.
    retry_errors
        Run again what ended with an error.
    progress
        Called at the start (without a row) and after every run with its row, the runs done and all runs.

    Raises
    ------
    ValueError
        When the folder is held by another call, holds rows of something else, or is damaged.
    """
    root = Path(folder)
    if not cases:
        raise ValueError("expected at least one instance, got none")
    for case in cases:
        _require_kind(case, settings)
    root.mkdir(parents=True, exist_ok=True)
    with folder_lock(root):
        document = sweep_document(settings, cases, this_machine())
        _open_folder(root, document, accept_changes)
        known = _known_rows(root, cases, retry_errors)
        tasks = list(_tasks(cases, settings))
        missing = [task for task in tasks if task.key not in known]
        done = len(tasks) - len(missing)
        if progress is not None:
            progress(None, done, len(tasks))
        instances = {case.name: case for case in cases}
        file = RowFile(root)
        try:
            for outcome in (engine or local_engine())(missing):
                row = _store(root, outcome, instances[outcome.row.instance])
                if row.key in known:
                    continue  # a cluster may do a run twice
                file.append(row)
                known[row.key] = row
                done += 1
                if progress is not None:
                    progress(row, done, len(tasks))
        finally:
            file.close()
    return BenchOutcome(rows=tuple(known[task.key] for task in tasks), ran=len(missing))


def _require_kind(case: Case, settings: BenchSettings) -> None:
    horizon = isinstance(case.instance, Horizon)
    for name in settings.methods:
        if horizon and not is_pair(name):
            raise ValueError(
                f"expected RULE+PLANNER such as static+dp-fast for the horizon {case.name}, got the method "
                f"{name!r}"
            )
        if is_pair(name) and not horizon:
            raise ValueError(f"expected horizons for the method {name!r}, got the instance {case.name}")
        if name.startswith(GATE) and not foretold(case.instance):
            raise ValueError(f"expected instances with predicted demand for {name}, got {case.name}")


def plan_file_name(key: RunKey) -> str:
    """Name of a run's plan file: readable, and different for every run on every file system."""
    readable = "-".join((key.instance, key.method, key.limit, str(key.seed)))
    safe = "".join(letter if letter.isalnum() or letter in "-_.@" else "-" for letter in readable)
    digest = hashlib.sha256("\0".join(map(str, key)).encode()).hexdigest()[:8]
    return f"{safe[:160]}-{digest}.plan.json.gz"


def _open_folder(root: Path, document: dict[str, object], accept_changes: bool) -> None:
    stored = read_sweep(root)
    if stored is None:
        if (root / ROWS).exists():
            raise ValueError(f"expected {root} to say what its {ROWS} belongs to, got no sweep.json there")
    elif stored == document:
        return
    elif not accept_changes:
        told = "; ".join(differences(stored, document)) or "fields of sweep.json"
        raise ValueError(
            f"expected the sweep that {root} holds rows of, got another: {told}. "
            "Name another folder with -o, or go on with --accept-changes (each row says where it ran)"
        )
    write_sweep(root, document)


def _known_rows(root: Path, cases: Sequence[Case], retry_errors: bool) -> dict[RunKey, BenchRow]:
    if not (root / ROWS).exists():
        return {}
    digests = {case.name: case.sha256 for case in cases}
    rows = read_rows(root)
    kept = [
        row
        for row in rows
        if digests.get(row.instance, row.instance_sha256) == row.instance_sha256
        and not (retry_errors and row.failed)
    ]
    if len(kept) < len(rows):
        rewrite_rows(root, kept)
    return {row.key: row for row in kept}


def _tasks(cases: Sequence[Case], settings: BenchSettings) -> Iterator[RunTask]:
    for case in cases:
        for method in settings.methods:
            for limit in settings.limits:
                for seed in settings.seeds:
                    yield RunTask(
                        set=case.set,
                        instance=case.instance,
                        instance_sha256=case.sha256,
                        method=method,
                        seed=seed,
                        limit=limit,
                        hint=_hint(case, settings),
                        replan=settings.replan,
                        lower_bound_ns=case.lower_bound_ns,
                        lower_bound_by=case.lower_bound_by,
                        best_known_ns=case.best_ns,
                    )


def _hint(case: Case, settings: BenchSettings) -> Plan | None:
    """The best plan of an instance; rules of horizons take no hints."""
    best = case.best_plan
    return best if settings.hints is Hints.BEST and isinstance(best, Plan) else None


def _store(root: Path, outcome: RunOutcome, case: Case) -> BenchRow:
    """Put the plan on the disk; the row that names it comes after it.

    What a worker says of it is evaluated again here: a foreign method may have changed its copy of the
    problem.
    """
    if outcome.plan is None:
        return outcome.row
    try:
        cost_ns: int | str = cost_of(case.instance, outcome.plan)
    except ValueError as error:
        cost_ns = str(error)
    if cost_ns != outcome.row.makespan_ns:
        return _disowned(outcome.row, cost_ns)
    name = plan_file_name(outcome.row.key)
    (root / PLANS).mkdir(exist_ok=True)
    digest = store_plan(root / PLANS / name, outcome.plan, case.instance)
    return replace(outcome.row, plan=name, plan_sha256=digest)


def _disowned(row: BenchRow, found: int | str) -> BenchRow:
    error = f"expected a plan of {row.makespan_ns} ns as the worker says, got {found} from the evaluator"
    return replace(
        row, status=RowStatus.ERROR, makespan_ns=None, gap_to_bound=None, gap_to_best=None, error=error
    )
