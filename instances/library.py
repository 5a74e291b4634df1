"""The library: saved instances with bounds and best-known plans, listed in an index."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path

import msgspec

from prescope.formulation import Instance
from prescope.formulation.horizon import Horizon
from prescope.instances import _schema as schema
from prescope.instances._convert import at_field
from prescope.instances._json_file import digest, read_json, write_json
from prescope.instances.file_error import InstanceFileError
from prescope.instances.horizon_file import HorizonFile, read_horizon
from prescope.instances.horizon_plan_file import HorizonPlanFile, read_horizon_plan
from prescope.instances.instance_file import InstanceFile, read_instance
from prescope.instances.plan_file import PlanFile, read_plan
from prescope.instances.provenance import Bounds

INDEX = "index.json"
INSTANCE_SUFFIX = ".json.gz"
PLAN_SUFFIX = ".plan.json.gz"

_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+=,-]*")
_REBUILD = "Rebuild the library with the command in docs/instances.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryEntry:
    """One line of the index.

    Parameters
    ----------
    name
        Of the instance; unique in the library.
    set
        Folder that holds it.
    path
        Its file, relative to the library, with ``/``.
    layers, experts, tokens
        Size of the problem.
    slots
        Device buffers for copied experts.
    optimum_ns, optimum_by
        Proven optimum and who proved it; ``None`` when none is known.
    lower_bound_ns, lower_bound_by
        Best proven lower bound and who proved it; ``None`` when none is known.
    best_ns, best_by
        Makespan of the best plan stored beside it and the method that made it; ``None`` without a plan.
    sha256, plan_sha256
        Checksums of the instance file and of the plan file (``None`` without a plan).
    steps
        Steps of a horizon, whose times above are totals of all steps; ``None`` for an instance.
    """

    name: str
    set: str
    path: str
    layers: int
    experts: int
    tokens: int
    slots: int
    optimum_ns: int | None
    optimum_by: str | None
    lower_bound_ns: int | None
    lower_bound_by: str | None
    best_ns: int | None
    best_by: str | None
    sha256: str
    plan_sha256: str | None
    steps: int | None = None

    def __post_init__(self) -> None:
        if len({self.best_ns is None, self.best_by is None, self.plan_sha256 is None}) != 1:
            raise ValueError(
                "expected all or none of best_ns, best_by and plan_sha256, got "
                f"{self.best_ns!r}, {self.best_by!r} and {self.plan_sha256!r}"
            )
        for name in (self.set, self.name):
            # Nothing that an index says may lead out of the library, or to another file in it.
            if not _FILE_NAME.fullmatch(name):
                raise ValueError(f"expected names of letters, digits and . _ @ + = , -, got {name!r:.60}")
        if self.path != f"{self.set}/{self.name}{INSTANCE_SUFFIX}":
            raise ValueError(
                f"expected the path {self.set}/{self.name}{INSTANCE_SUFFIX}, got {self.path!r:.200}"
            )

    @property
    def plan_path(self) -> str:
        """The best plan's file, relative to the library."""
        return self.path.removesuffix(INSTANCE_SUFFIX) + PLAN_SUFFIX


def library_root() -> Path:
    """Folder of the library that comes with the package."""
    return Path(str(files("prescope.instances").joinpath("library")))


def list_library(
    root: str | os.PathLike[str] | None = None, *, sets: Iterable[str] | None = None
) -> list[LibraryEntry]:
    """Entries of a library's index in its order.

    Parameters
    ----------
    root
        Folder of the library; by default the package's own.
    sets
        Only these sets; by default all.

    Raises
    ------
    InstanceFileError
        When the index is missing, damaged or against the schema.
    ValueError
        When a set does not exist; the message lists those that do.
    """
    path = _root(root) / INDEX
    entries = read_json(path, schema.LibraryDocument, _understand, _express)
    names = [entry.name for entry in entries]
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise InstanceFileError(path, "entries", f"expected unique names, got {twice[0]!r} twice", _REBUILD)
    if sets is None:
        return list(entries)
    wanted, known = set(sets), {entry.set for entry in entries}
    for name in sorted(wanted - known):
        raise ValueError(f"expected a set among {', '.join(sorted(known))}, got {name!r}")
    return [entry for entry in entries if entry.set in wanted]


def library_sets(root: str | os.PathLike[str] | None = None) -> tuple[str, ...]:
    """Names of a library's sets in the order of its index; raises like `list_library`."""
    return tuple(dict.fromkeys(entry.set for entry in list_library(root)))


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
        raise InstanceFileError(path, "sha256", problem, _REBUILD)


def _require_kind(entry: LibraryEntry, *, horizon: bool) -> None:
    if (entry.steps is not None) != horizon:
        kinds = ("an instance", "a horizon", "_instance", "_horizon")
        wanted, got, reader = kinds[horizon], kinds[not horizon], kinds[3 - horizon]
        raise ValueError(
            f"expected the name of {wanted}, got {entry.name!r}, which is {got}: "
            f"load it with load_library{reader}"
        )


def write_index(root: str | os.PathLike[str], entries: list[LibraryEntry]) -> str:
    """Write a library's index and return its checksum; raises `InstanceFileError` like `write_instance`."""
    return write_json(Path(root) / INDEX, schema.LibraryDocument, tuple(entries), _understand, _express)


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
            raise InstanceFileError(path, field, problem_text, _REBUILD)


def _express(entries: tuple[LibraryEntry, ...]) -> schema.LibraryDocument:
    document = schema.LibraryDocument(
        format=schema.LIBRARY_FORMAT,
        version=schema.LIBRARY_VERSION,
        sha256="",
        entries=[_record(entry) for entry in entries],
    )
    return msgspec.structs.replace(document, sha256=digest(document))


def _record(entry: LibraryEntry) -> schema.EntryRecord:
    fields = asdict(entry)
    bounds = schema.EntryBounds(
        lower_ns=fields.pop("lower_bound_ns"),
        lower_by=fields.pop("lower_bound_by"),
        upper_ns=fields.pop("best_ns"),
        upper_by=fields.pop("best_by"),
    )
    steps = fields.pop("steps")
    return schema.EntryRecord(bounds=bounds, steps=msgspec.UNSET if steps is None else steps, **fields)


def _understand(document: schema.LibraryDocument) -> tuple[LibraryEntry, ...]:
    with at_field("entries"):
        return tuple(_entry_of(record) for record in document.entries)


def _entry_of(record: schema.EntryRecord) -> LibraryEntry:
    fields = msgspec.structs.asdict(record)
    bounds, steps = fields.pop("bounds"), fields.pop("steps")
    return LibraryEntry(
        lower_bound_ns=bounds.lower_ns,
        lower_bound_by=bounds.lower_by,
        best_ns=bounds.upper_ns,
        best_by=bounds.upper_by,
        steps=None if steps is msgspec.UNSET else steps,
        **fields,
    )
