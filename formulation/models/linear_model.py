"""A mixed-integer linear model as plain data: no solver's terms, all numbers integers.

Integers keep the model exact: files written from it, a proof checked against it and a model patched in place
can be compared to the last digit. Adapters scale on the way to a solver.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from prescope.formulation.demand import FloatArray, IntArray

UNLIMITED = 1 << 62
"""Bound of a row or column that has none (negated below)."""

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinearModel:
    """Minimise ``objective @ x`` with ``row_lower <= A x <= row_upper`` and bounds on ``x``.

    Parameters
    ----------
    name
        What it models.
    columns, rows
        Names, of ``n`` columns and ``m`` rows.
    lower, upper, objective
        Of the columns, int64 ``[n]``.
    integer
        Which columns take integers only, bool ``[n]``.
    time
        Which columns are times in nanoseconds, bool ``[n]``; a solver may want them in a larger unit.
    row_lower, row_upper
        int64 ``[m]``; `UNLIMITED` where there is none.
    starts, index, value
        ``A`` row by row: row ``i`` has entries ``starts[i]:starts[i + 1]`` of ``index`` (column) and
        ``value``, all int64. Zeros are kept: which entries there are depends on the model's size alone.
    """

    name: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    lower: IntArray
    upper: IntArray
    objective: IntArray
    integer: BoolArray
    time: BoolArray
    row_lower: IntArray
    row_upper: IntArray
    starts: IntArray
    index: IntArray
    value: IntArray

    def activity(self, x: FloatArray | IntArray) -> FloatArray | IntArray:
        """``A x``; exact for integer ``x``."""
        products = self.value * x[self.index]
        # reduceat repeats the next entry for an empty row; rows here are never empty.
        return np.add.reduceat(products, self.starts[:-1])

    def violation(self, x: FloatArray | IntArray) -> float:
        """Largest violation of a row or bound; 0 for a feasible ``x`` (integrality is not looked at)."""
        rows = self.activity(x)
        over = [self.row_lower - rows, rows - self.row_upper, self.lower - x, x - self.upper]
        return float(max(0, *(part.max() for part in over if part.size)))

    def same_shape(self, other: LinearModel) -> bool:
        """Whether the two differ in numbers only."""
        return (
            self.columns == other.columns
            and self.rows == other.rows
            and np.array_equal(self.starts, other.starts)
            and np.array_equal(self.index, other.index)
            and np.array_equal(self.integer, other.integer)
        )


@dataclass(slots=True, kw_only=True)
class LinearModelBuilder:
    """Collects columns and rows."""

    name: str
    _columns: list[tuple[str, int, int, bool, bool]] = field(default_factory=list)
    _rows: list[tuple[str, int, int]] = field(default_factory=list)
    _starts: list[int] = field(default_factory=lambda: [0])
    _index: list[int] = field(default_factory=list)
    _value: list[int] = field(default_factory=list)

    def column(self, name: str, lower: int, upper: int, *, integer: bool = False, time: bool = False) -> int:
        """Add a column and return its number."""
        self._columns.append((name, lower, upper, integer, time))
        return len(self._columns) - 1

    def row(self, name: str, terms: Iterable[tuple[int, int]], lower: int, upper: int = UNLIMITED) -> None:
        """Add ``lower <= sum(value * column) <= upper``; ``terms`` are ``(column, value)``."""
        for index, value in terms:
            self._index.append(index)
            self._value.append(value)
        self._starts.append(len(self._index))
        self._rows.append((name, lower, upper))

    def build(self, minimise: int) -> LinearModel:
        """The model that minimises one column."""
        objective = np.zeros(len(self._columns), dtype=np.int64)
        objective[minimise] = 1
        return LinearModel(
            name=self.name,
            columns=tuple(column[0] for column in self._columns),
            rows=tuple(row[0] for row in self._rows),
            lower=np.array([column[1] for column in self._columns], dtype=np.int64),
            upper=np.array([column[2] for column in self._columns], dtype=np.int64),
            objective=objective,
            integer=np.array([column[3] for column in self._columns], dtype=np.bool_),
            time=np.array([column[4] for column in self._columns], dtype=np.bool_),
            row_lower=np.array([row[1] for row in self._rows], dtype=np.int64),
            row_upper=np.array([row[2] for row in self._rows], dtype=np.int64),
            starts=np.array(self._starts, dtype=np.int64),
            index=np.array(self._index, dtype=np.int64),
            value=np.array(self._value, dtype=np.int64),
        )
