"""The lines of a benchmark's table: kept from an earlier run, written whole or not at all."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def read_lines(path: Path, *, fresh: bool = False) -> list[dict[str, Any]]:
    """Lines of earlier runs as text; none where there was no run, or to start over."""
    if fresh or not path.exists():
        return []
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write_lines(path: Path, lines: Sequence[dict[str, Any]], fields: Sequence[str] | None = None) -> None:
    """Write all lines so far, through a file beside it: a run that is killed loses only what it is at.

    Parameters
    ----------
    path
        The table.
    lines
        Its lines.
    fields
        Names of the columns; those of the first line where not given.
    """
    part = path.with_suffix(".part")
    with open(part, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=fields or list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    part.replace(path)
