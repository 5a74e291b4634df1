"""Put better plans into a library, with the proof that they are better."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from prescope.bench.row import BenchRow, Kind
from prescope.bench.row_file import read_rows
from prescope.bench.sweep import PLANS, plan_file_name
from prescope.formulation import makespan_ns
from prescope.instances import (
    LibraryEntry,
    instance_digest,
    list_library,
    load_library_instance,
    read_plan,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Improvement:
    """A better plan in a library and the proof.

    Parameters
    ----------
    instance, method, limit, seed
        The run that found it.
    old_ns
        Makespan of the plan it replaces; ``None`` when there was none.
    new_ns
        Its makespan by the exact evaluator, below ``old_ns``.
    lower_bound_ns
        The library's proved bound, not above ``new_ns``.
    """

    instance: str
    method: str
    limit: str
    seed: int
    old_ns: int | None
    new_ns: int
    lower_bound_ns: int | None


def update_library(
    folder: str | os.PathLike[str], *, library: str | os.PathLike[str] | None = None
) -> tuple[Improvement, ...]:
    """Write the plans of a sweep that are shorter than the library's into the library.

    Each is read again, must be for the very problem of the library, is evaluated again, must be shorter than
    what is stored and may not be below a proved bound.

    Parameters
    ----------
    folder
        Of the sweep.
    library
        Folder of the library; by default the one that comes with the package.

    Raises
    ------
    ValueError
        When a plan is not what its row says, or beats a bound said to be proved.
    OSError
        When the library cannot be written to.
    """
    entries = {entry.name: entry for entry in list_library(library)}
    best: dict[str, BenchRow] = {}
    for row in read_rows(folder):
        entry = entries.get(row.instance)
        # A realised plan knows less than the best known one, which is for known demand.
        if row.kind is Kind.PLANNED and entry is not None and _shorter(row.makespan_ns, entry.best_ns):
            if _shorter(row.makespan_ns, best[row.instance].makespan_ns if row.instance in best else None):
                best[row.instance] = row
    return tuple(_update(Path(folder), row, entries[row.instance], library) for row in best.values())


def _update(
    folder: Path, row: BenchRow, entry: LibraryEntry, library: str | os.PathLike[str] | None
) -> Improvement:
    instance = load_library_instance(entry.name, library).instance
    if instance_digest(instance) != row.instance_sha256:
        raise ValueError(
            f"expected the row's instance {row.instance!r} to be the library's, got one with other content"
        )
    file = read_plan(folder / PLANS / plan_file_name(row.key))
    file.require_instance(instance)
    cost_ns = makespan_ns(instance, file.plan)
    if cost_ns != row.makespan_ns:
        raise ValueError(
            f"expected {row.makespan_ns} ns for {row.instance} by {row.method}, "
            f"got {cost_ns} ns from the evaluator"
        )
    from prescope.instances import update_best

    update_best(entry.name, file.plan, library)
    return Improvement(
        **row.key._asdict(), old_ns=entry.best_ns, new_ns=cost_ns, lower_bound_ns=entry.lower_bound_ns
    )


def _shorter(new_ns: int | None, old_ns: int | None) -> bool:
    return new_ns is not None and (old_ns is None or new_ns < old_ns)
