"""Routing logs as JSON lines, one record per forward pass and layer."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import UNSET

from prescope.instances.file_error import InstanceFileError
from prescope.instances.importers.jsonl_schema import RecordLine, header_line, record_line
from prescope.instances.importers.line_blocks import Progress, line_blocks
from prescope.instances.importers.log_header import LogHeader
from prescope.instances.importers.trace_builder import TraceBuilder
from prescope.instances.routing_trace import Phase, RoutingTrace, twice_chosen

LAYOUT = "docs/recording.md describes the log"
_MAX_LINE_BYTES = 1 << 23
_PHASES = {"prefill": Phase.PREFILL, "decode": Phase.DECODE}


def read_jsonl_log(path: str | os.PathLike[str], *, progress: Progress | None = None) -> RoutingTrace:
    """Read a routing log of JSON lines; parameters and errors as for `read_csv_log`."""
    log = _JsonlLog(Path(path))
    for number, block in line_blocks(log.path, max_line_bytes=_MAX_LINE_BYTES, progress=progress):
        for row, line in enumerate(block[:-1].split(b"\n")):
            log.line(number + row, line)
    return log.finish()


@dataclass(slots=True)
class _Forward:
    """The forward pass that records are being read of."""

    number: int
    first: int
    count: int
    layer: int = -1


class _JsonlLog:
    """The state of one reading."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._header: LogHeader | None = None
        self._builder: TraceBuilder | None = None
        self._forward: _Forward | None = None
        # Whether records have weights, and forward passes token ids: all or none.
        self._has: dict[str, bool] = {}
        self._records = 0

    def line(self, number: int, line: bytes) -> None:
        try:
            if self._builder is None:
                self._header = header_line(line)
                self._builder = TraceBuilder(self._header)
            else:
                self._record(record_line(line), self._header, self._builder)  # type: ignore[arg-type]
        except (ValueError, OverflowError, msgspec.DecodeError) as error:
            problem = str(error)[:500]
            raise InstanceFileError(self.path, f"line {number}", problem, LAYOUT) from error

    def finish(self) -> RoutingTrace:
        assert self._builder is not None and self._header is not None
        if self._header.size is not None and self._header.size != self._records:
            problem = f"expected {self._header.size} records as the first line says, got {self._records}"
            raise InstanceFileError(self.path, "records", problem, "The log is not whole: export it again")
        try:
            return self._builder.finish(
                weights=self._has.get("weights", False),
                token_ids=self._has.get("tokens", False),
                header=self._header,
            )
        except ValueError as error:
            raise InstanceFileError(self.path, "records", str(error), LAYOUT) from error

    def _record(self, record: RecordLine, header: LogHeader, builder: TraceBuilder) -> None:
        if record.layer >= header.layers:
            raise ValueError(f"expected layer in [0, {header.layers - 1}], got {record.layer}")
        ids = _matrix("ids", record.ids, header.meta.top_k, np.int64)
        if int(ids.min()) < -1 or int(ids.max()) >= header.meta.experts:
            raise ValueError(
                f"expected ids in [-1, {header.meta.experts - 1}], got values in [{ids.min()}, {ids.max()}]"
            )
        twice = twice_chosen(ids)
        if twice.any():
            raise ValueError(f"expected distinct ids in a row, got {ids[twice.argmax()].tolist()}")
        self._records += 1
        builder.entries += ids.size
        forward = self._forward
        if forward is None or record.forward != forward.number:
            if forward is not None and record.forward < forward.number:
                raise ValueError(f"expected forward {forward.number} or later, got {record.forward}")
            forward = self._forward = self._begin(record, len(ids), builder)
        else:
            self._repeated(record, forward, builder)
        if record.layer <= forward.layer:
            raise ValueError(f"expected a layer after {forward.layer} in this forward, got {record.layer}")
        forward.layer = record.layer
        rows = self._rows(record, forward, len(ids))
        builder.ids[rows, record.layer] = ids
        self._all_or_none("weights", record.weights is not UNSET)
        if record.weights is not UNSET:
            weights = _matrix("weights", record.weights, header.meta.top_k, np.float64)
            with np.errstate(over="ignore"):
                kept = weights.astype(header.weights)
            if len(kept) != len(ids) or not np.isfinite(kept).all():
                raise ValueError(f"expected finite weights like the {len(ids)} rows of ids, got others")
            builder.weights[rows, record.layer] = kept

    def _begin(self, record: RecordLine, rows: int, builder: TraceBuilder) -> _Forward:
        """The first record of a forward pass says what its rows are."""
        if record.phase is UNSET or record.sequences is UNSET:
            raise ValueError("expected phase and sequences in the first record of a forward, got none")
        counts = {
            len(value)
            for value in (record.phase, record.sequences, record.tokens, record.padding)
            if isinstance(value, list)
        }
        if record.rows is UNSET:
            counts.add(rows)
        if len(counts) != 1 or 0 in counts:
            raise ValueError(
                f"expected one entry per token in every list of the record, got {sorted(counts)}"
            )
        count = counts.pop()
        first = builder.add(count)
        at = slice(first, first + count)
        builder.position[at] = np.arange(first, first + count)
        builder.sequence[at] = record.sequences
        builder.phase[at] = _PHASES[record.phase] if isinstance(record.phase, str) else record.phase
        self._all_or_none("tokens", record.tokens is not UNSET)
        if record.tokens is not UNSET:
            builder.token[at] = record.tokens
        if record.padding is not UNSET:
            builder.padding[at] = record.padding
        return _Forward(number=record.forward, first=first, count=count)

    def _repeated(self, record: RecordLine, forward: _Forward, builder: TraceBuilder) -> None:
        """What a later record of a forward pass says again has to be the same."""
        at = slice(forward.first, forward.first + forward.count)
        said: dict[str, tuple[Any, npt.NDArray[Any]]] = {
            "phase": (
                _PHASES[record.phase] if isinstance(record.phase, str) else record.phase,
                builder.phase[at],
            ),
            "sequences": (record.sequences, builder.sequence[at]),
            "tokens": (record.tokens, builder.token[at]),
            "padding": (record.padding, builder.padding[at]),
        }
        for name, (value, before) in said.items():
            if value is UNSET:
                continue
            if name == "tokens" and not self._has["tokens"]:
                raise ValueError("expected tokens in the first record of a forward, got them later")
            if np.shape(value) not in ((), before.shape) or not (np.asarray(value) == before).all():
                raise ValueError(
                    f"expected the same {name} as in the first record of forward {forward.number}"
                )

    @staticmethod
    def _rows(record: RecordLine, forward: _Forward, count: int) -> Any:
        if record.rows is UNSET:
            if count != forward.count:
                raise ValueError(f"expected ids of the {forward.count} tokens of the forward, got {count}")
            return slice(forward.first, forward.first + count)
        rows = np.array(record.rows, dtype=np.int64)
        if len(rows) != count or (np.diff(rows) < 1).any() or int(rows[-1]) >= forward.count:
            raise ValueError(
                f"expected {count} ascending rows below {forward.count}, one for each row of ids, got others"
            )
        return forward.first + rows

    def _all_or_none(self, name: str, given: bool) -> None:
        if self._has.setdefault(name, given) != given:
            raise ValueError(f"expected {name} in all records or in none, got both")


def _matrix(name: str, rows: list[list[Any]], width: int, dtype: type[Any]) -> npt.NDArray[Any]:
    if not rows or any(len(row) != width for row in rows):
        got = f"a row of {next(len(row) for row in rows if len(row) != width)}" if rows else "none"
        raise ValueError(f"expected {name} as rows of {width} values, got {got}")
    return np.array(rows, dtype=dtype)
