"""Routing logs as CSV, one row per token, layer and chosen expert."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from prescope.formulation.demand import IntArray
from prescope.instances.file_error import InstanceFileError
from prescope.instances.importers.csv_preamble import Preamble
from prescope.instances.importers.csv_table import (
    OPTIONAL,
    REQUIRED,
    RowError,
    as_index,
    column_names,
    require_ranges,
    sizes_of,
    table,
    weights_of,
)
from prescope.instances.importers.line_blocks import Progress, line_blocks
from prescope.instances.importers.log_header import LogHeader
from prescope.instances.importers.trace_builder import ABSENT, TraceBuilder
from prescope.instances.routing_trace import RoutingTrace, twice_chosen

logger = logging.getLogger(__name__)

LAYOUT = "docs/recording.md describes the log"
_MAX_LINE_BYTES = 1 << 20
_MAX_PREAMBLE_BYTES = 1 << 22

Columns = dict[str, npt.NDArray[np.int64 | np.float64]]


def read_csv_log(path: str | os.PathLike[str], *, progress: Progress | None = None) -> RoutingTrace:
    """Read a routing log in CSV.

    The log is read in blocks: memory holds the trace it makes and little more.

    Parameters
    ----------
    path
        The log; ``.gz`` at the end says that it is compressed.
    progress
        Called with the bytes read so far and all bytes, both as on disk.

    Raises
    ------
    InstanceFileError
        When it is missing, damaged, or against the layout; ``field`` names the line.
    """
    return _CsvLog(Path(path)).read(progress)


class _CsvLog:
    """The state of one reading."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._preamble = Preamble()
        self._names: tuple[str, ...] = ()
        self._rows: dict[int, int] = {}
        self._sizes: dict[int, int] = {}
        self._weighted: bool | None = None
        self._read = 0

    def read(self, progress: Progress | None) -> RoutingTrace:
        blocks = line_blocks(self._path, max_line_bytes=_MAX_LINE_BYTES, progress=progress)
        first, rest = self._until_rows(blocks)
        header = self._header(first - 1)
        if header.expert_bytes is not None and not self._preamble.from_engine:
            self._sizes.update(zip(header.numbers, header.expert_bytes, strict=True))
        builder = TraceBuilder(header)
        if rest:
            self._block(first, rest, header, builder)
        for number, block in blocks:
            self._block(number, block, header, builder)
        if header.size is not None and header.size != self._read:
            problem = f"expected {header.size} rows as the preamble says, got {self._read}"
            raise InstanceFileError(self._path, "rows", problem, "The log is not whole: export it again")
        try:
            return builder.finish(
                weights=bool(self._weighted),
                token_ids="token" in self._names,
                header=self._preamble.header(sizes=self._sizes),
            )
        except ValueError as error:
            raise InstanceFileError(self._path, "rows", str(error), LAYOUT) from error

    def _until_rows(self, blocks: Iterator[tuple[int, bytes]]) -> tuple[int, bytes]:
        """Take the preamble and the names of the columns; returns the first row's line and what follows."""
        taken = 0
        for number, block in blocks:
            at = 0
            while at < len(block):
                end = block.index(b"\n", at)
                line, at = block[at:end], end + 1
                taken += 1 + len(line)
                if taken > _MAX_PREAMBLE_BYTES:
                    problem = f"expected a preamble of at most {_MAX_PREAMBLE_BYTES} bytes, got more"
                    raise InstanceFileError(self._path, f"line {number}", problem, LAYOUT)
                try:
                    if not line.startswith(b"#"):
                        self._names = column_names(line)
                        self._say_ignored()
                        return number + 1, block[at:]
                    self._preamble.line(line[1:].decode("utf-8"))
                except ValueError as error:
                    raise InstanceFileError(self._path, f"line {number}", str(error), LAYOUT) from error
                number += 1
        problem = f"expected a line of column names ({', '.join(REQUIRED)}), got none"
        raise InstanceFileError(self._path, "file", problem, LAYOUT)

    def _say_ignored(self) -> None:
        ignored = [name for name in self._names if name not in (*REQUIRED, *OPTIONAL)]
        if ignored:
            logger.warning("%s: not part of a trace, left out: %s", self._path, ", ".join(ignored)[:500])

    def _header(self, line: int) -> LogHeader:
        try:
            header = self._preamble.header(sizes={})
        except ValueError as error:
            remedy = "Add what is missing above the columns, for example '# experts: 128'"
            raise InstanceFileError(
                self._path, f"preamble (above line {line})", str(error), remedy
            ) from error
        return header

    def _block(self, number: int, block: bytes, header: LogHeader, builder: TraceBuilder) -> None:
        try:
            columns: Columns = table(block, self._names)
            require_ranges(columns, header)
            self._take(columns, header, builder)
        except RowError as error:
            column = f", column {error.column}" if error.column else ""
            where = f"line {number + error.row}{column}"
            raise InstanceFileError(self._path, where, str(error), LAYOUT) from error
        except ValueError as error:
            where = f"lines {number} to {number + block.count(10) - 1}"
            raise InstanceFileError(self._path, where, str(error), LAYOUT) from error

    def _take(self, columns: Columns, header: LogHeader, builder: TraceBuilder) -> None:
        count = len(columns["turn"])
        self._read += count
        builder.entries = self._read
        layers, slots = _layers(columns, header), as_index(columns["slot"])
        experts = as_index(columns["expert"])
        tokens = self._tokens(columns, builder)
        entries = (tokens * header.layers + layers) * header.meta.top_k + slots
        known = builder.ids.reshape(-1)[entries] != ABSENT
        again = _repeated(entries)
        if again is not None or known.any():
            row = int(known.argmax()) if again is None else again
            raise RowError(row, "", f"expected each entry once, got {_entry(columns, row)} again")
        builder.ids.reshape(-1)[entries] = experts
        self._take_weights(columns, header, builder, entries)
        if not self._preamble.from_engine or header.expert_bytes is None:
            sizes_of(columns, self._sizes)
        touched, last, _ = _grouped(entries // header.meta.top_k)
        twice = twice_chosen(builder.ids.reshape(-1, header.meta.top_k)[touched])
        if twice.any():
            row = int(last[twice.argmax()])
            got = builder.ids.reshape(-1, header.meta.top_k)[touched[twice.argmax()]].tolist()
            raise RowError(row, "expert", f"expected distinct experts, got {got} in {_entry(columns, row)}")

    def _take_weights(
        self, columns: Columns, header: LogHeader, builder: TraceBuilder, entries: IntArray
    ) -> None:
        weights = weights_of(columns, header)
        if self._weighted is None:
            self._weighted = weights is not None
        if self._weighted != (weights is not None):
            raise RowError(0, "weight", "expected weights in the whole log or nowhere, got both")
        if weights is not None:
            builder.weights.reshape(-1)[entries] = weights

    def _tokens(self, columns: Columns, builder: TraceBuilder) -> IntArray:
        """Rows of the builder, int64 ``[rows]``; new tokens are added in the order of their appearance."""
        turns, steps = as_index(columns["turn"]), as_index(columns["step"])
        keys, where, inverse = _grouped((turns << 32) + steps)
        rows = np.array([self._rows.get(key, -1) for key in keys.tolist()], dtype=np.int64)
        new = np.flatnonzero(rows < 0)
        if new.size:
            new = new[np.argsort(where[new])]
            first = builder.add(new.size)
            rows[new] = np.arange(first, first + new.size)
            self._rows.update(zip(keys[new].tolist(), rows[new].tolist(), strict=True))
            at, of = slice(first, first + new.size), where[new]
            builder.sequence[at], builder.position[at] = turns[of], steps[of]
            builder.phase[at] = columns["phase"][of]
            if "token" in columns:
                builder.token[at] = columns["token"][of]
            if "padding" in columns:
                builder.padding[at] = columns["padding"][of]
        tokens: IntArray = rows[inverse]
        for name in ("phase", "token", "padding"):
            if name in columns:
                before = getattr(builder, name)[tokens]
                wrong = before != columns[name]
                if wrong.any():
                    row = int(wrong.argmax())
                    where_ = f"turn {turns[row]}, step {steps[row]}"
                    raise RowError(
                        row,
                        name,
                        f"expected {int(before[row])} as before for {where_}, got {columns[name][row]}",
                    )
        return tokens


def _layers(columns: Columns, header: LogHeader) -> IntArray:
    """Place of each row's layer among the MoE layers, int64 ``[rows]``."""
    numbers = np.array(header.numbers)
    given = as_index(columns["layer"])
    places = np.searchsorted(numbers, given)
    wrong = numbers[places] != given
    if wrong.any():
        row = int(wrong.argmax())
        raise RowError(row, "layer", f"expected an MoE layer, got {given[row]}, whose experts have no bytes")
    return places.astype(np.int64)


def _grouped(values: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Distinct values, the first place of each, and which of them every place holds, like `numpy.unique`."""
    steps = np.diff(values)
    if (steps < 0).any():
        return np.unique(values, return_index=True, return_inverse=True)
    # Most logs are in order: nothing to sort.
    new = np.concatenate([[True], steps > 0])
    first = np.flatnonzero(new)
    return values[first], first, np.cumsum(new) - 1


def _repeated(values: IntArray) -> int | None:
    """The first place of a value that was there before."""
    if (np.diff(values) > 0).all():
        return None
    order = np.argsort(values, kind="stable")
    again = order[1:][np.diff(values[order]) == 0]
    return int(again.min()) if again.size else None


def _entry(columns: Columns, row: int) -> str:
    return ", ".join(f"{name} {columns[name][row]}" for name in ("turn", "step", "layer", "slot"))
