"""Hold a library to what its index claims, with the exact evaluator as the judge."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from prescope.formulation import makespan_ns
from prescope.formulation.horizon_evaluator import evaluate_horizon
from prescope.instances.file_error import InstanceFileError
from prescope.instances.horizon_file import HorizonFile
from prescope.instances.horizon_plan_file import HorizonPlanFile
from prescope.instances.instance_file import InstanceFile
from prescope.instances.library import (
    load_entry,
    load_entry_horizon,
    load_entry_horizon_plan,
    load_entry_plan,
)
from prescope.instances.library_index import INDEX, LibraryEntry, library_root, list_library
from prescope.instances.plan_file import PlanFile


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryFault:
    """Something in a library that is not as its index says.

    Parameters
    ----------
    name
        The instance, or the file for which there is none.
    problem
        What was expected and what was got.
    """

    name: str
    problem: str


def verify_library(
    root: str | os.PathLike[str] | None = None,
    *,
    sets: Iterable[str] | None = None,
    progress: Callable[[int, int, LibraryEntry], None] | None = None,
) -> tuple[LibraryFault, ...]:
    """Read every file of a library again and evaluate every stored plan.

    A plan is refused when the evaluator's makespan differs from what the plan or the index claims, when it
    is for another instance, or when it beats a bound said to be proved. The bounds themselves are not
    proved again: `prescope.library_check.check_library` does that.

    Parameters
    ----------
    root
        Folder of the library; by default the package's own.
    sets
        Only these sets; by default all.
    progress
        Called before each entry with its number, the number of entries and the entry.

    Returns
    -------
    tuple of LibraryFault
        Empty when everything is in order.

    Raises
    ------
    InstanceFileError
        When the index itself cannot be read.
    ValueError
        When a set does not exist.
    """
    entries = list_library(root, sets=sets)
    faults: list[LibraryFault] = []
    for number, entry in enumerate(entries):
        if progress is not None:
            progress(number, len(entries), entry)
        try:
            verify_entry(entry, root)
        except ValueError as error:
            faults.append(LibraryFault(name=entry.name, problem=str(error)))
    return (*faults, *unlisted_files(root))


def unlisted_files(root: str | os.PathLike[str] | None = None) -> tuple[LibraryFault, ...]:
    """JSON files in a library's folder that its index does not list."""
    folder = library_root() if root is None else Path(root)
    entries = list_library(folder)
    known = {entry.path for entry in entries} | {e.plan_path for e in entries if e.best_ns is not None}
    places = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*.json*"))]
    return tuple(
        LibraryFault(name=place, problem="expected the index to list this file, got none")
        for place in places
        if place not in known and place != INDEX
    )


def verify_entry(
    entry: LibraryEntry, root: str | os.PathLike[str] | None = None
) -> tuple[InstanceFile, PlanFile | None] | tuple[HorizonFile, HorizonPlanFile | None]:
    """Read an entry's files and hold them to the index; see `verify_library`.

    Returns
    -------
    file, plan
        What was read; ``None`` where no plan is stored.

    Raises
    ------
    ValueError
        Saying what was expected and what was got.
    """
    folder = library_root() if root is None else Path(root)
    path = folder / entry.plan_path
    if entry.steps is not None:
        row = load_entry_horizon(entry, folder)
        if entry.best_ns is None:
            return row, None
        kept = load_entry_horizon_plan(entry, folder)
        kept.require_horizon(row.horizon)
        total_ns = evaluate_horizon(row.horizon, kept.plan).total_ns
        _require_claims(entry, path, total_ns, entry.best_ns, kept.plan.method)
        return row, kept
    file = load_entry(entry, folder)
    if entry.best_ns is None:
        return file, None
    stored = load_entry_plan(entry, folder)
    stored.require_instance(file.instance)
    info = stored.plan.info
    cost_ns = makespan_ns(file.instance, stored.plan)
    _require_claims(entry, path, cost_ns, info.makespan_ns, info.method)
    return file, stored


def _require_claims(
    entry: LibraryEntry, path: Path, cost_ns: int, claimed_ns: int | None, method: str
) -> None:
    for claim, claimed in (("index", entry.best_ns), ("plan", claimed_ns)):
        if claimed != cost_ns:
            problem = f"expected {claimed} ns as the {claim} claims, got {cost_ns} ns from the evaluator"
            raise InstanceFileError(path, "plan", problem, "The plan is refused: store one that costs this")
    if method != entry.best_by:
        problem = f"expected method {entry.best_by!r} as the index says, got {method!r}"
        raise InstanceFileError(path, "plan.info.method", problem, "Correct the index")
    for bound, value_ns in (("lower bound", entry.lower_bound_ns), ("optimum", entry.optimum_ns)):
        if value_ns is not None and cost_ns < value_ns:
            problem = f"expected at least the {bound} of {value_ns} ns, got {cost_ns} ns"
            raise InstanceFileError(path, "plan", problem, "The bound is not valid: correct it")
