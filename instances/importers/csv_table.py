"""A block of CSV lines as columns of numbers, strictly: every line, every field."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from prescope.formulation.demand import FloatArray, IntArray
from prescope.instances.importers.log_header import LogHeader
from prescope.instances.limits import MAX_BYTES

REQUIRED = ("turn", "phase", "step", "layer", "slot", "expert")
OPTIONAL = ("weight", "expert_bytes", "token", "padding")

_MAX_COLUMNS = 100
_COMMA, _BREAK = ord(","), ord("\n")
_WHOLE = re.compile(r"\s*[+-]?[0-9]+\s*")


class RowError(ValueError):
    """Something wrong about one row.

    Attributes
    ----------
    row : int
        Which of the block, from 0.
    column : str
        Where in it; empty when it is not about one.
    """

    def __init__(self, row: int, column: str, problem: str) -> None:
        super().__init__(problem)
        self.row, self.column = row, column


def column_names(line: bytes) -> tuple[str, ...]:
    """The columns of a log, in its order.

    Raises
    ------
    ValueError
        When one is missing or there twice, or there are too many.
    """
    if not line.isascii():
        raise ValueError(
            f"expected names of columns, or a line that begins with #, in ASCII, got {line[:40]!r}"
        )
    names = tuple(name.strip() for name in line.decode("ascii").split(","))
    if len(names) > _MAX_COLUMNS:
        raise ValueError(f"expected at most {_MAX_COLUMNS} columns, got {len(names)}")
    missing = [name for name in REQUIRED if name not in names]
    twice = [name for name in names if names.count(name) > 1]
    if missing or twice:
        got = f"none called {missing[0]}" if missing else f"{twice[0]!r:.60} twice"
        raise ValueError(f"expected the columns {', '.join(REQUIRED)}, each once, got {got}")
    return names


def table(block: bytes, names: Sequence[str]) -> dict[str, npt.NDArray[np.int64 | np.float64]]:
    """Parse a block of lines; int64 ``[rows]`` per known column, float64 for weights.

    Raises
    ------
    RowError
        For the first line that has another number of fields, or a field that is not a number.
    """
    _require_fields(block, len(names))
    wanted = [name for name in names if name in (*REQUIRED, *OPTIONAL)]
    kinds = np.dtype([(name, "f8" if name == "weight" else "i8") for name in wanted])
    try:
        lines = block.decode("ascii").removesuffix("\n").split("\n")
        rows = np.loadtxt(
            lines,
            dtype=kinds,
            delimiter=",",
            comments=None,
            usecols=[names.index(name) for name in wanted],
            ndmin=1,
        )
        if len(rows) != len(lines):
            raise ValueError(f"expected {len(lines)} rows, got {len(rows)}")
    except ValueError as error:
        raise _located(block, names, wanted, error) from error
    return {name: rows[name] for name in wanted}


def require_ranges(columns: dict[str, npt.NDArray[np.int64 | np.float64]], header: LogHeader) -> None:
    """Refuse numbers out of range with `RowError`; layers are `LogHeader.numbers`."""
    largest = 2**31 - 1
    ranges = {
        "turn": (0, largest),
        "phase": (0, 1),
        "step": (0, largest),
        "layer": (header.numbers[0], header.numbers[-1]),
        "slot": (0, header.meta.top_k - 1),
        "expert": (-1, header.meta.experts - 1),
        "expert_bytes": (0, MAX_BYTES),
        "token": (-1, largest),
        "padding": (0, 1),
    }
    for name, (low, high) in ranges.items():
        if name in columns:
            values = columns[name]
            wrong = (values < low) | (values > high)
            if wrong.any():
                row = int(wrong.argmax())
                raise RowError(row, name, f"expected {name} in [{low}, {high}], got {values[row]}")


def _require_fields(block: bytes, count: int) -> None:
    data = np.frombuffer(block, dtype=np.uint8)
    breaks = np.flatnonzero(data == _BREAK)
    commas = np.searchsorted(np.flatnonzero(data == _COMMA), breaks)
    fields = np.diff(commas, prepend=0) + 1
    wrong = fields != count
    if wrong.any():
        row = int(wrong.argmax())
        raise RowError(row, "", f"expected {count} fields, got {fields[row]}")


def _located(block: bytes, names: Sequence[str], wanted: Sequence[str], error: ValueError) -> RowError:
    """Find the field that the fast reader stumbled over."""
    for row, line in enumerate(block.split(b"\n")[:-1]):
        fields = line.decode("ascii", errors="backslashreplace").split(",")
        for name, text in zip(names, fields, strict=True):
            if not text.isascii() or "\\x" in text or (name in wanted and not _is_number(name, text)):
                kind = "a number" if name == "weight" else "a whole number that fits 64 bits"
                return RowError(row, name, f"expected {kind}, got {text!r:.60}")
    return RowError(0, "", f"expected rows of numbers, got {str(error)[:200]}")


def _is_number(name: str, text: str) -> bool:
    if name != "weight":
        return bool(_WHOLE.fullmatch(text)) and len(text) < 100 and -(2**63) <= int(text) < 2**63
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def weights_of(
    columns: dict[str, npt.NDArray[np.int64 | np.float64]], header: LogHeader
) -> FloatArray | None:
    """Weights in the type they are kept in, ``None`` when every one is ``nan``: unknown.

    Raises
    ------
    RowError
        When some are known and others not, or one does not fit its type.
    """
    if "weight" not in columns:
        return None
    given = columns["weight"]
    unknown = np.isnan(given)
    if unknown.all():
        return None
    if unknown.any():
        raise RowError(int(unknown.argmax()), "weight", "expected a weight in every row or in none, got nan")
    with np.errstate(over="ignore"):
        kept: FloatArray = given.astype(header.weights)
    wrong = ~np.isfinite(kept)
    if wrong.any():
        row = int(wrong.argmax())
        raise RowError(row, "weight", f"expected a finite {header.weights}, got {given[row]}")
    return kept


def sizes_of(columns: dict[str, npt.NDArray[np.int64 | np.float64]], known: dict[int, int]) -> None:
    """Take note of the bytes of an expert of each layer; 0 says nothing.

    Raises
    ------
    RowError
        When two rows of a layer differ.
    """
    if "expert_bytes" not in columns:
        return
    layers, sizes = columns["layer"], columns["expert_bytes"]
    for layer in np.unique(layers[sizes > 0]).tolist():
        rows = np.flatnonzero((layers == layer) & (sizes > 0))
        size = known.setdefault(int(layer), int(sizes[rows[0]]))
        wrong = sizes[rows] != size
        if wrong.any():
            row = int(rows[wrong.argmax()])
            raise RowError(
                row, "expert_bytes", f"expected {size} as before in layer {layer}, got {sizes[row]}"
            )


def as_index(values: npt.NDArray[np.int64 | np.float64]) -> IntArray:
    """Whole numbers that are known to be such."""
    return values.astype(np.int64, copy=False)
