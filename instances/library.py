"""The library: saved problems with bounds and best-known plans, by name or by line of the index."""

from __future__ import annotations

import os
from pathlib import Path

from prescope.formulation import Instance
from prescope.formulation.horizon import Horizon
from prescope.instances.file_error import InstanceFileError
from prescope.instances.horizon_file import HorizonFile, read_horizon
from prescope.instances.horizon_plan_file import HorizonPlanFile, read_horizon_plan
from prescope.instances.instance_file import InstanceFile, read_instance
from prescope.instances.library_index import REBUILD, LibraryEntry, library_root, list_library
from prescope.instances.plan_file import PlanFile, read_plan
from prescope.instances.provenance import Bounds


def load_library_instance(name: str, root: str | os.PathLike[str] | None = None) -> InstanceFile:
    """The instance of a name.

    Raises
    ------
    ValueError
        When no instance has that name; the message lists the nearest ones.
    InstanceFileError
        When its file is not what the index says.
    """
    return load_entry(_entry(name, root), root)


def load_library_plan(name: str, root: str | os.PathLike[str] | None = None) -> PlanFile:
    """The best-known plan of an instance; raises like `load_library_instance`.

    `verify_library` says whether it costs what it claims.
    """
    return load_entry_plan(_entry(name, root), root)


def load_library_horizon(name: str, root: str | os.PathLike[str] | None = None) -> HorizonFile:
    """The horizon of a name; raises like `load_library_instance`."""
    return load_entry_horizon(_entry(name, root), root)


def load_library_horizon_plan(name: str, root: str | os.PathLike[str] | None = None) -> HorizonPlanFile:
    """The best-known plan of a horizon; raises like `load_library_instance`."""
    return load_entry_horizon_plan(_entry(name, root), root)


def load_entry_plan(entry: LibraryEntry, root: str | os.PathLike[str] | None = None) -> PlanFile:
    """The best-known plan of an entry of the index; raises like `load_library_plan`."""
    _require_kind(entry, horizon=False)
    path = _plan_path(entry, root)
    file = read_plan(path)
    _require_checksum(path, entry.plan_sha256, file.sha256)
    return file


def load_entry_horizon_plan(
    entry: LibraryEntry, root: str | os.PathLike[str] | None = None
) -> HorizonPlanFile:
    """The best-known plan of a horizon's entry; raises like `load_library_plan`."""
    _require_kind(entry, horizon=True)
    path = _plan_path(entry, root)
    file = read_horizon_plan(path)
    _require_checksum(path, entry.plan_sha256, file.sha256)
    return file


def _plan_path(entry: LibraryEntry, root: str | os.PathLike[str] | None) -> Path:
    if entry.best_ns is None:
        raise ValueError(f"expected an instance with a stored plan, got {entry.name!r} without one")
    return _root(root) / entry.plan_path


def _require_checksum(path: Path, expected: str | None, found: str) -> None:
    if found != expected:
        problem = f"expected {expected!r} as the index says, got {found!r}"
        raise InstanceFileError(path, "sha256", problem, REBUILD)


def _require_kind(entry: LibraryEntry, *, horizon: bool) -> None:
    if (entry.steps is not None) != horizon:
        kinds = ("an instance", "a horizon", "_instance", "_horizon")
        wanted, got, reader = kinds[horizon], kinds[not horizon], kinds[3 - horizon]
        raise ValueError(
            f"expected the name of {wanted}, got {entry.name!r}, which is {got}: "
            f"load it with load_library{reader}"
        )


def _root(root: str | os.PathLike[str] | None) -> Path:
    return library_root() if root is None else Path(root)


def _entry(name: str, root: str | os.PathLike[str] | None) -> LibraryEntry:
    from difflib import get_close_matches

    entries = {entry.name: entry for entry in list_library(root)}
    if name not in entries:
        near = ", ".join(get_close_matches(name, entries, n=3, cutoff=0.3)) or "none similar"
        raise ValueError(f"expected one of the library's {len(entries)} names (near: {near}), got {name!r}")
    return entries[name]


def load_entry(entry: LibraryEntry, root: str | os.PathLike[str] | None = None) -> InstanceFile:
    """The instance of an entry of the index.

    Raises
    ------
    InstanceFileError
        When its file is not what the index says.
    """
    _require_kind(entry, horizon=False)
    path = _root(root) / entry.path
    file = read_instance(path)
    instance = file.instance
    tokens = instance.demand.batch_tokens
    _require_listed(entry, path, file.sha256, file.bounds, instance, tokens=tokens, steps=None)
    return file


def load_entry_horizon(entry: LibraryEntry, root: str | os.PathLike[str] | None = None) -> HorizonFile:
    """The horizon of an entry of the index; raises like `load_entry`."""
    _require_kind(entry, horizon=True)
    path = _root(root) / entry.path
    file = read_horizon(path)
    horizon = file.horizon
    tokens = max(demand.batch_tokens for demand in horizon.demands)
    _require_listed(entry, path, file.sha256, file.bounds, horizon, tokens=tokens, steps=horizon.steps)
    return file


def _require_listed(
    entry: LibraryEntry,
    path: Path,
    sha256: str,
    bounds: Bounds,
    problem: Instance | Horizon,
    *,
    tokens: int,
    steps: int | None,
) -> None:
    """Refuse a file that is not what the index says."""
    found = {
        "sha256": sha256,
        "instance.name": problem.name,
        "layers": problem.layers,
        "experts": problem.experts,
        "tokens": tokens,
        "slots": problem.slots,
        "steps": steps,
        "optimum_ns": bounds.optimum_ns,
        "optimum_by": bounds.optimum_by,
        "lower_bound_ns": bounds.lower_bound_ns,
        "lower_bound_by": bounds.lower_bound_by,
    }
    for field, value in found.items():
        listed = getattr(entry, field.removeprefix("instance."))
        if value != listed:
            problem_text = f"expected {listed!r} as the index says, got {value!r}"
            raise InstanceFileError(path, field, problem_text, REBUILD)
