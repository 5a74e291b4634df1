"""Write a trace as a log of JSON lines."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET

from prescope.formulation.checks import require_int
from prescope.formulation.demand import IntArray
from prescope.instances.importers.csv_export import log_file
from prescope.instances.importers.jsonl_schema import LOG_FORMAT, VERSION, HeaderLine, RecordLine
from prescope.instances.importers.log_header import header_of
from prescope.instances.routing_trace import Phase, RoutingTrace


def write_jsonl_log(path: str | os.PathLike[str], trace: RoutingTrace, *, batch: int = 32) -> None:
    """Write a trace as JSON lines atomically, compressed when the name ends in ``.gz``.

    `read_jsonl_log` gives an equal trace, without gating inputs: those have no place in a log. A trace does
    not know which tokens were computed together; here a forward pass takes ``batch`` sequences at a time, and
    of each the next run of prefill tokens or one decoded token.

    Raises
    ------
    ValueError
        When a text of the trace's meta is longer than a log may hold.
    OSError
        When the folder cannot be written to.
    """
    require_int("batch", batch, 1)
    encoder = msgspec.json.Encoder()
    header = header_of(trace)
    forwards = _forwards(trace, batch)
    lines = HeaderLine(
        format=LOG_FORMAT,
        version=VERSION,
        **{name: getattr(trace.meta, name) for name in trace.meta.__dataclass_fields__},
        layers=header.layers,
        weights=header.weights,  # type: ignore[arg-type]
        expert_bytes=None if header.expert_bytes is None else list(header.expert_bytes),
        dense_bytes=None if header.dense_bytes is None else list(header.dense_bytes),
        records=sum(1 for _ in _forwards(trace, batch)) * header.layers,
    )
    first = encoder.encode(lines)
    # Limits are checked when a line is read: what could not be read again is not written.
    msgspec.json.decode(first, type=HeaderLine)
    with log_file(Path(path)) as stream:
        stream.write(first + b"\n")
        for number, rows in enumerate(forwards):
            for layer in range(trace.layers):
                stream.write(encoder.encode(_record(trace, number, rows, layer)) + b"\n")


def _forwards(trace: RoutingTrace, batch: int) -> Iterator[IntArray]:
    """Tokens computed together, int64 ``[rows]``, one array a forward pass."""
    for first in range(0, trace.sequences, batch):
        starts = trace.seq_offsets[first : first + batch].copy()
        ends = trace.seq_offsets[first + 1 : first + batch + 1]
        starts = starts[: len(ends)]
        while (starts < ends).any():
            pieces = [
                np.arange(start, _end(trace, int(start), int(end)), dtype=np.int64)
                for start, end in zip(starts, ends, strict=True)
            ]
            yield np.concatenate(pieces)
            starts += [len(piece) for piece in pieces]


def _end(trace: RoutingTrace, start: int, end: int) -> int:
    """Where the run that begins at ``start`` ends: a run of prefill tokens, or one decoded token."""
    if start >= end or trace.phase[start] == Phase.DECODE:
        return min(start + 1, end)
    decoded = np.flatnonzero(trace.phase[start:end] == Phase.DECODE)
    return start + int(decoded[0]) if decoded.size else end


def _record(trace: RoutingTrace, number: int, rows: IntArray, layer: int) -> RecordLine:
    facts: dict[str, Any] = {}
    if layer == 0:
        phases = trace.phase[rows]
        alike = bool((phases == phases[0]).all())
        facts["phase"] = Phase(int(phases[0])).name.lower() if alike else phases.tolist()
        facts["sequences"] = (np.searchsorted(trace.seq_offsets, rows, side="right") - 1).tolist()
        if trace.token_ids is not None:
            facts["tokens"] = trace.token_ids[rows].tolist()
        if trace.padding[rows].any():
            facts["padding"] = trace.padding[rows].astype(int).tolist()
    weights = UNSET if trace.topk_weights is None else trace.topk_weights[rows, layer].tolist()
    return RecordLine(
        forward=number, layer=layer, ids=trace.topk_ids[rows, layer].tolist(), weights=weights, **facts
    )
