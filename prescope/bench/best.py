"""Put better plans into a library, with the proof that they are better."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from prescope.bench.library_write import replace_best
from prescope.bench.problems import cost_of, problem_digest, stored_plan
from prescope.bench.row import BenchRow, Kind
from prescope.bench.row_file import read_rows
from prescope.bench.sweep import PLANS, plan_file_name
from prescope.instances import (
    InstanceFile,
    LibraryEntry,
    library_root,
    list_library,
    load_library_horizon,
    load_library_instance,
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
    what is stored and may not be below a proved bound. A plan that meets the bound makes it the optimum.

    Parameters
    ----------
    folder
        Of the sweep.
    library
        Folder of the library; by default the one that comes with the package.

    Raises
    ------
    ValueError
        When a plan is not what its row says or beats a bound said to be proved, or another process is
        changing the library.
    OSError
        When the library cannot be written to.
    """
    root = library_root() if library is None else Path(library)
    with _held(root):
        entries = {entry.name: entry for entry in list_library(root)}
        best: dict[str, BenchRow] = {}
        for row in read_rows(folder):
            entry = entries.get(row.instance)
            # A realised plan knows less than the best known one, which is for known demand.
            if row.kind is not Kind.PLANNED or entry is None or row.makespan_ns is None:
                continue
            leader = best[row.instance].makespan_ns if row.instance in best else entry.best_ns
            if leader is None or row.makespan_ns < leader:
                best[row.instance] = row
        return tuple(_update(Path(folder), row, entries[row.instance], root) for row in best.values())


def _update(folder: Path, row: BenchRow, entry: LibraryEntry, root: Path) -> Improvement:
    known = (load_library_instance if entry.steps is None else load_library_horizon)(entry.name, root)
    problem = known.instance if isinstance(known, InstanceFile) else known.horizon
    if problem_digest(problem) != row.instance_sha256:
        raise ValueError(
            f"expected the row's instance {row.instance!r} to be the library's, got one with other content"
        )
    plan, _ = stored_plan(folder / PLANS / plan_file_name(row.key), problem)
    cost_ns = cost_of(problem, plan)
    if cost_ns != row.makespan_ns:
        raise ValueError(
            f"expected {row.makespan_ns} ns for {row.instance} by {row.method}, "
            f"got {cost_ns} ns from the evaluator"
        )
    for bound_ns, by in (
        (entry.lower_bound_ns, entry.lower_bound_by),
        (entry.optimum_ns, entry.optimum_by),
    ):
        if bound_ns is not None and cost_ns < bound_ns:
            raise ValueError(
                f"expected at least {bound_ns} ns for {row.instance}, proved by {by}, got {cost_ns} ns by "
                f"{row.method}; either the bound or the evaluation is wrong"
            )
    replace_best(entry, known, plan, cost_ns, root)
    return Improvement(
        **row.key._asdict(), old_ns=entry.best_ns, new_ns=cost_ns, lower_bound_ns=entry.lower_bound_ns
    )


@contextmanager
def _held(root: Path) -> Iterator[None]:
    """Hold a library's folder, without leaving a file in it."""
    import fcntl

    descriptor = os.open(root, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"expected the library {root} to be free, got another process at it") from None
        yield
    finally:
        os.close(descriptor)
