"""Rows as lines of CSV and back."""

from __future__ import annotations

import csv
import io
import math
import re
import typing
from collections.abc import Callable, Sequence
from dataclasses import fields
from types import NoneType
from typing import Any

from prescope.bench.row import BenchRow

_INCUMBENTS = re.compile(r"(\d{1,18}:\d{1,18}( (?!$)|$))*")
COLUMNS = tuple(field.name for field in fields(BenchRow))


def to_line(row: BenchRow) -> str:
    """One physical line, its end included, whatever the texts contain."""
    return _line([_text(getattr(row, name)) for name in COLUMNS])


def header() -> str:
    """The line with the columns' names."""
    return _line(COLUMNS)


def from_cells(cells: Sequence[str]) -> BenchRow:
    """The row of a line's cells.

    Raises
    ------
    ValueError
        Naming the column, what was expected and what was got.
    """
    if len(cells) != len(COLUMNS):
        raise ValueError(f"expected {len(COLUMNS)} columns, got {len(cells)}")
    values: dict[str, Any] = {}
    for name, cell in zip(COLUMNS, cells, strict=True):
        read, optional = _READ[name]
        try:
            values[name] = None if optional and cell == "" else read(cell)
        except ValueError:
            raise ValueError(f"expected {name} to be {read.__name__.strip('_')}, got {cell!r}") from None
    return BenchRow(**values)


def _line(cells: Sequence[str]) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerow(" ".join(cell.split()) for cell in cells)
    return stream.getvalue()


def _text(value: Any) -> str:
    return "" if value is None else repr(value) if isinstance(value, float) else str(value)


def _incumbents(cell: str) -> str:
    if not _INCUMBENTS.fullmatch(cell):
        raise ValueError
    return cell


def _finite(cell: str) -> float:
    value = float(cell)
    if not math.isfinite(value):
        raise ValueError
    return value


def _readers() -> dict[str, tuple[Callable[[str], Any], bool]]:
    readers = {}
    for name, hint in typing.get_type_hints(BenchRow).items():
        kinds = [kind for kind in typing.get_args(hint) or (hint,) if kind is not NoneType]
        reader = _incumbents if name == "incumbents" else _finite if kinds == [float] else kinds[0]
        readers[name] = (reader, NoneType in typing.get_args(hint))
    return readers


_READ = _readers()
