"""What the options of ``prescope bench`` mean."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from prescope.bench import Case, Engine

Member = TypeVar("Member", bound=StrEnum)
_MAX_SEEDS = 10_000


INSTANCE_METHODS = "on-demand,intra-layer,presched,dp-fast,dp"
HORIZON_METHODS = (
    "static+dp-fast,lru+dp-fast,lfu+dp-fast,moving-average+dp-fast,learned+dp-fast,belady+dp-fast"
)


def default_methods(cases: Sequence[Case]) -> str:
    """What runs where no methods are named; a sweep is of one kind."""
    return HORIZON_METHODS if any(case.steps is not None for case in cases) else INSTANCE_METHODS


def words(text: str) -> tuple[str, ...]:
    """The parts between commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def numbers(option: str, text: str) -> tuple[int, ...]:
    """Numbers and ranges such as ``0,3-5``.

    Raises
    ------
    ValueError
        When it is something else.
    """
    found: list[int] = []
    for word in words(text):
        first, _, last = word.partition("-")
        if not first.isdecimal() or not (last or first).isdecimal() or word.endswith("-"):
            raise ValueError(f"expected {option} such as 0,3-5, got {text!r}")
        if not 0 <= int(last or first) - int(first) < _MAX_SEEDS:
            raise ValueError(f"expected a range of {option} with 1 to {_MAX_SEEDS} numbers, got {word!r}")
        found += range(int(first), int(last or first) + 1)
    return tuple(found)


def member(kind: type[Member], option: str, text: str) -> Member:
    """The member of an enumeration that an option names.

    Raises
    ------
    ValueError
        Naming the members.
    """
    if text not in list(kind):
        raise ValueError(f"expected {option} among {', '.join(kind)}, got {text!r}")
    return kind(text)


def open_engine(name: str, scheduler: str | None, jobs: int) -> Engine:
    """Where to run.

    Raises
    ------
    ValueError
        When the options do not go together or a package is missing.
    """
    from prescope.bench import local_engine
    from prescope.bench.dask_engine import dask_engine

    if name == "local":
        if scheduler is not None:
            raise ValueError("expected --engine dask with --scheduler, got --engine local")
        return local_engine(jobs)
    if name != "dask":
        raise ValueError(f"expected --engine local or dask, got {name!r}")
    if scheduler is None:
        raise ValueError("expected --scheduler with the address of a Dask scheduler, got none")
    if jobs != 1:
        raise ValueError(f"expected no --jobs with --engine dask (its workers count), got {jobs}")
    return dask_engine(scheduler)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="prescope-bench-") as folder:
        yield Path(folder)
