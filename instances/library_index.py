"""The index of the library: what is stored where, and what is proved of it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path

import msgspec

from prescope.instances import _schema as schema
from prescope.instances._convert import at_field
from prescope.instances._json_file import digest, read_json, write_json
from prescope.instances.file_error import InstanceFileError

INDEX = "index.json"
INSTANCE_SUFFIX = ".json.gz"
PLAN_SUFFIX = ".plan.json.gz"

_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+=,-]*")
REBUILD = "Rebuild the library with the command in docs/instances.md"


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
    path = (library_root() if root is None else Path(root)) / INDEX
    entries = read_json(path, schema.LibraryDocument, _understand, _express)
    names = [entry.name for entry in entries]
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise InstanceFileError(path, "entries", f"expected unique names, got {twice[0]!r} twice", REBUILD)
    if sets is None:
        return list(entries)
    wanted, known = set(sets), {entry.set for entry in entries}
    for name in sorted(wanted - known):
        raise ValueError(f"expected a set among {', '.join(sorted(known))}, got {name!r}")
    return [entry for entry in entries if entry.set in wanted]


def library_sets(root: str | os.PathLike[str] | None = None) -> tuple[str, ...]:
    """Names of a library's sets in the order of its index; raises like `list_library`."""
    return tuple(dict.fromkeys(entry.set for entry in list_library(root)))


def write_index(root: str | os.PathLike[str], entries: list[LibraryEntry]) -> str:
    """Write a library's index and return its checksum; raises `InstanceFileError` like `write_instance`."""
    return write_json(Path(root) / INDEX, schema.LibraryDocument, tuple(entries), _understand, _express)


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
