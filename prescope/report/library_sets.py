"""The library's sets, one a line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from prescope.instances import LibraryEntry
from prescope.report.tables import plain_table

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLine:
    """One set of the library.

    Parameters
    ----------
    name, about
        The set and the first sentence of its README.
    instances, proved
        How many there are, and how many with a proven optimum.
    layers, experts, tokens
        Least and most.
    mean_gap, max_gap
        Of the best stored plans to the proved lower bounds; 0 is proved optimal.
    readme
        The file that says more; ``None`` where there is none.
    """

    name: str
    about: str
    instances: int
    proved: int
    layers: tuple[int, int]
    experts: tuple[int, int]
    tokens: tuple[int, int]
    mean_gap: float
    max_gap: float
    readme: str | None


def set_lines(entries: Sequence[LibraryEntry], root: Path) -> list[SetLine]:
    """One line per set, in the order of the index."""
    lines = []
    for name in dict.fromkeys(entry.set for entry in entries):
        mine = [entry for entry in entries if entry.set == name]
        gaps = [_gap(entry) for entry in mine]
        readme = root / name / "README.md"
        lines.append(
            SetLine(
                name=name,
                about=_about(readme),
                instances=len(mine),
                proved=sum(entry.optimum_ns is not None for entry in mine),
                layers=_range([entry.layers for entry in mine]),
                experts=_range([entry.experts for entry in mine]),
                tokens=_range([entry.tokens for entry in mine]),
                mean_gap=sum(gaps) / len(gaps),
                max_gap=max(gaps),
                readme=str(readme) if readme.exists() else None,
            )
        )
    return lines


def sets_table(lines: Sequence[SetLine]) -> Table:
    """For a terminal."""
    table = plain_table(
        "set", "instances", "proved", "layers", "experts", "tokens", "mean gap", "max gap", gap=1
    )
    for line in lines:
        table.add_row(
            line.name,
            str(line.instances),
            str(line.proved),
            _span(line.layers),
            _span(line.experts),
            _span(line.tokens),
            f"{line.mean_gap:.3%}",
            f"{line.max_gap:.3%}",
        )
    return table


def _gap(entry: LibraryEntry) -> float:
    if entry.best_ns is None or entry.lower_bound_ns is None or entry.best_ns == entry.lower_bound_ns:
        return 0.0
    return (entry.best_ns - entry.lower_bound_ns) / max(entry.lower_bound_ns, 1)


def _about(readme: Path) -> str:
    if not readme.exists():
        return ""
    lines = readme.read_text(encoding="utf-8").splitlines()
    return next((line for line in lines if line and not line.startswith("#")), "")


def _range(values: Sequence[int]) -> tuple[int, int]:
    return min(values), max(values)


def _span(pair: tuple[int, int]) -> str:
    return str(pair[0]) if pair[0] == pair[1] else f"{pair[0]}-{pair[1]}"
