"""The instances of a sweep: named sets, names with wildcards, files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from prescope.bench.problems import AnyPlan, Problem, problem_digest, size_of
from prescope.instances import (
    Bounds,
    HorizonFile,
    InstanceFile,
    LibraryEntry,
    file_format,
    list_library,
    load_library_horizon,
    load_library_horizon_plan,
    load_library_instance,
    load_library_plan,
    read_horizon,
    read_instance,
)

FILES = "files"
_FILE_ENDINGS = (".json", ".json.gz")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One instance or horizon of a sweep and what is known about it beforehand.

    Parameters
    ----------
    set
        Its set in the library; ``"files"`` for a file given by its path.
    instance
        The problem.
    sha256
        Digest of its content.
    lower_bound_ns, lower_bound_by
        The best bound its file says is proved; ``None`` when it says none.
    best_ns, best_plan
        Makespan of the best plan of the library, and the plan; ``None`` without one.
    """

    set: str
    instance: Problem
    sha256: str
    lower_bound_ns: int | None = None
    lower_bound_by: str | None = None
    best_ns: int | None = None
    best_plan: AnyPlan | None = None

    @property
    def name(self) -> str:
        """Name of the instance."""
        return self.instance.name

    @property
    def steps(self) -> int | None:
        """Steps of a horizon, ``None`` for an instance."""
        return size_of(self.instance).steps


def find_cases(wanted: Sequence[str], *, library: str | os.PathLike[str] | None = None) -> tuple[Case, ...]:
    """Read the instances and horizons that texts name, each once, in the order given.

    Parameters
    ----------
    wanted
        Names of sets or of instances in the library, with the wildcards ``*``, ``?`` and ``[]``, and
        files of instances or horizons.
    library
        Folder of the library; by default the one that comes with the package.

    Raises
    ------
    ValueError
        When a text names nothing, or two different instances have one name.
    InstanceFileError
        When a file is not what it should be.
    """
    entries = list_library(library)
    cases: dict[str, Case] = {}
    for text in wanted:
        for case in _named(text, entries, library):
            known = cases.setdefault(case.name, case)
            if known.sha256 != case.sha256:
                raise ValueError(
                    f"expected one instance of the name {case.name!r}, got two with different content"
                )
    return tuple(cases.values())


def _named(text: str, entries: list[LibraryEntry], library: str | os.PathLike[str] | None) -> Iterable[Case]:
    if text.endswith(_FILE_ENDINGS) or Path(text).is_file():
        horizon = file_format(text) == "prescope-horizon"
        return [_from_file(read_horizon(text) if horizon else read_instance(text))]
    # A set of that name hides instances that happen to match; `[` occurs in no name of the library.
    chosen = [entry for entry in entries if fnmatchcase(entry.set, text)] or [
        entry for entry in entries if fnmatchcase(entry.name, text)
    ]
    if not chosen:
        sets = ", ".join(sorted({entry.set for entry in entries})) or "none"
        raise ValueError(
            f"expected a set (the library has {sets}), the name of an instance, or a file "
            f"ending in .json or .json.gz, got {text!r}; `prescope instances list` shows the library"
        )
    return [_from_library(entry, library) for entry in chosen]


def _from_file(file: InstanceFile | HorizonFile) -> Case:
    problem = file.horizon if isinstance(file, HorizonFile) else file.instance
    bound_ns, bound_by = _bound(file.bounds)
    return Case(
        set=FILES,
        instance=problem,
        sha256=problem_digest(problem),
        lower_bound_ns=bound_ns,
        lower_bound_by=bound_by,
    )


def _from_library(entry: LibraryEntry, library: str | os.PathLike[str] | None) -> Case:
    plan: AnyPlan | None = None
    if entry.steps is None:
        file = load_library_instance(entry.name, library)
        case = _from_file(file)
        if entry.best_ns is not None:
            stored = load_library_plan(entry.name, library)
            stored.require_instance(file.instance)
            plan = stored.plan
    else:
        row = load_library_horizon(entry.name, library)
        case = _from_file(row)
        if entry.best_ns is not None:
            kept = load_library_horizon_plan(entry.name, library)
            kept.require_horizon(row.horizon)
            plan = kept.plan
    return replace(case, set=entry.set, best_ns=entry.best_ns, best_plan=plan)


def _bound(bounds: Bounds) -> tuple[int | None, str | None]:
    if bounds.optimum_ns is not None:
        return bounds.optimum_ns, bounds.optimum_by
    return bounds.lower_bound_ns, bounds.lower_bound_by
