"""Everything the library claims, checked again: files, plans, and the proofs of its bounds."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prescope.instances import HorizonFile, HorizonPlanFile, InstanceFile, LibraryEntry, PlanFile

    _Task = tuple[LibraryEntry, str | os.PathLike[str] | None, bool]

PROVED_SET = "tiny-proved"
"""Every instance of this set must be proved optimal by CP-SAT, not by our own bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryCheck:
    """What became of one entry of the index.

    Parameters
    ----------
    name, set
        The instance.
    problem
        What was expected and what was got; ``None`` when everything is in order.
    proved_by
        Who proved its bounds again; ``None`` where nothing was proved.
    time_ns
        Wall time it took.
    """

    name: str
    set: str
    problem: str | None
    proved_by: str | None
    time_ns: int


def check_library(
    root: str | os.PathLike[str] | None = None,
    *,
    sets: Iterable[str] | None = None,
    names: Iterable[str] | None = None,
    proofs: bool = True,
    jobs: int = 1,
    progress: Callable[[int, int, EntryCheck], None] | None = None,
) -> tuple[EntryCheck, ...]:
    """Check entries of a library: schema, checksums, plans re-evaluated, bounds proved again.

    Parameters
    ----------
    root
        Folder of the library; by default the package's own.
    sets, names
        Only these; by default all.
    proofs
        Prove bounds again. Without, only files and plans are checked, in seconds.
    jobs
        Processes.
    progress
        Called after each entry with how many are done, how many there are, and its check.

    Returns
    -------
    tuple of EntryCheck
        In the order of the index; files that it does not list come last.

    Raises
    ------
    InstanceFileError
        When the index itself cannot be read.
    ValueError
        When a set or name does not exist.
    """
    from prescope.formulation.checks import require_int
    from prescope.instances import list_library
    from prescope.instances.verify_library import unlisted_files

    require_int("jobs", jobs, 1)
    entries = list_library(root, sets=sets)
    if names is not None:
        wanted = set(names)
        unknown = sorted(wanted - {entry.name for entry in entries})
        if unknown:
            raise ValueError(f"expected names of library instances, got {unknown[0]!r}")
        entries = [entry for entry in entries if entry.name in wanted]
    done: dict[str, EntryCheck] = {}
    # The largest first: one of them at the end would keep a single process busy.
    order = sorted(entries, key=lambda entry: -entry.layers * min(entry.experts * 8, entry.tokens * 8))
    tasks = [(entry, root, proofs) for entry in order]
    for check in _results(tasks, jobs):
        done[check.name] = check
        if progress is not None:
            progress(len(done), len(entries), check)
    checks = [done[entry.name] for entry in entries]
    if names is None:
        checks += [
            EntryCheck(name=fault.name, set="", problem=fault.problem, proved_by=None, time_ns=0)
            for fault in unlisted_files(root)
        ]
    return tuple(checks)


def _results(tasks: list[_Task], jobs: int) -> Iterator[EntryCheck]:
    if jobs == 1 or len(tasks) < 2:
        yield from map(_check, tasks)
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, as_completed

    # Spawned: forking a process whose solver threads run is not safe.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=jobs, mp_context=context) as pool:
        pending = [pool.submit(_check, task) for task in tasks]
        try:
            for future in as_completed(pending):
                yield future.result()
        finally:
            for future in pending:
                future.cancel()


def _check(task: _Task) -> EntryCheck:
    from time import perf_counter_ns

    from prescope.instances.verify_library import verify_entry

    entry, root, proofs = task
    begin = perf_counter_ns()
    problem = proved_by = None
    try:
        file, plan = verify_entry(entry, root)
        if proofs and plan is not None:
            from prescope.solver.prove_bounds import BY_CP_SAT

            proved_by = _prove(file, plan)
            if entry.set == PROVED_SET and (entry.optimum_by, proved_by) != (BY_CP_SAT, BY_CP_SAT):
                raise ValueError(f"expected an optimum proved by {BY_CP_SAT}, got {entry.optimum_by!r}")
    except (ValueError, RuntimeError) as error:
        problem, proved_by = str(error), None
    return EntryCheck(
        name=entry.name,
        set=entry.set,
        problem=problem,
        proved_by=proved_by,
        time_ns=perf_counter_ns() - begin,
    )


def _prove(file: InstanceFile | HorizonFile, plan: PlanFile | HorizonPlanFile) -> str:
    from prescope.instances import HorizonFile, HorizonPlanFile

    if isinstance(file, HorizonFile) and isinstance(plan, HorizonPlanFile):
        from prescope.solver.residency.prove import prove_horizon_bounds

        return prove_horizon_bounds(file, plan)
    from prescope.instances import InstanceFile, PlanFile
    from prescope.solver.prove_bounds import prove_bounds

    if isinstance(file, InstanceFile) and isinstance(plan, PlanFile):
        return prove_bounds(file, plan.plan)
    raise ValueError(f"expected a plan of the kind of its {type(file).__name__}, got {type(plan).__name__}")
