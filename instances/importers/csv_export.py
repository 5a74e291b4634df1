"""Write a trace as a CSV log."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from prescope.instances._atomic import atomic_file
from prescope.instances.importers.csv_preamble import preamble_text
from prescope.instances.importers.csv_table import OPTIONAL, REQUIRED
from prescope.instances.importers.log_header import LOG_VERSION, header_of
from prescope.instances.routing_trace import RoutingTrace

_TOKENS_AT_ONCE = 64


def write_csv_log(path: str | os.PathLike[str], trace: RoutingTrace) -> None:
    """Write a trace as a CSV log atomically, compressed when the name ends in ``.gz``.

    `read_csv_log` gives an equal trace, without gating inputs: those have no place in a log.

    Raises
    ------
    OSError
        When the folder cannot be written to.
    """
    with log_file(Path(path)) as stream:
        stream.write(_preamble(trace).encode("utf-8"))
        for start in range(0, trace.tokens, _TOKENS_AT_ONCE):
            stream.write(_rows(trace, start, min(trace.tokens, start + _TOKENS_AT_ONCE)).encode("ascii"))


@contextmanager
def log_file(path: Path) -> Iterator[IO[bytes]]:
    """A log that appears when it is whole; compressed by its name, the same bytes for the same content."""
    with atomic_file(path) as raw:
        if path.suffix != ".gz":
            yield raw
            return
        with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=raw, mtime=0) as stream:
            yield stream  # type: ignore[misc]


def _preamble(trace: RoutingTrace) -> str:
    header = header_of(trace)
    meta = header.meta
    entries = {
        "prescope-routing-log": LOG_VERSION,
        "model": preamble_text(meta.model),
        "experts": meta.experts,
        "top_k": meta.top_k,
        "layers": header.layers,
    }
    entries |= {
        name: preamble_text(value)
        for name in ("fingerprint", "tokenizer", "source", "notes")
        if (value := getattr(meta, name))
    }
    if trace.topk_weights is not None:
        entries["weights"] = header.weights
    entries["rows"] = trace.topk_ids.size
    lines = [f"# {key}: {value}" for key, value in entries.items()]
    for layer in range(header.layers):
        sizes = [
            f"{name}={values[layer]}"
            for name, values in (("expert_bytes", header.expert_bytes), ("dense_bytes", header.dense_bytes))
            if values is not None
        ]
        if sizes:
            lines.append(f"# layer={layer} {' '.join(sizes)}")
    return "\n".join([*lines, ",".join(_columns(trace)), ""])


def _columns(trace: RoutingTrace) -> tuple[str, ...]:
    """Columns that the log needs."""
    has = {
        "weight": trace.topk_weights is not None,
        "expert_bytes": trace.expert_bytes is not None,
        "token": trace.token_ids is not None,
        "padding": bool(trace.padding.any()),
    }
    return (*REQUIRED, *(name for name in OPTIONAL if has[name]))


def _rows(trace: RoutingTrace, start: int, end: int) -> str:
    """Rows of some tokens, in the order of tokens, layers, slots."""
    count, layers, width = end - start, trace.layers, trace.meta.top_k
    turns = np.searchsorted(trace.seq_offsets, np.arange(start, end), side="right") - 1
    steps = np.arange(start, end) - trace.seq_offsets[turns]

    def per_token(values: npt.NDArray[Any]) -> list[int]:
        repeated: list[int] = np.repeat(values, layers * width).astype(int).tolist()
        return repeated

    def per_layer(values: npt.NDArray[Any]) -> list[int]:
        repeated: list[int] = np.tile(np.repeat(values, width), count).astype(int).tolist()
        return repeated

    columns: list[list[int] | list[str]] = [
        per_token(turns),
        per_token(trace.phase[start:end]),
        per_token(steps),
        per_layer(np.arange(layers)),
        np.tile(np.arange(width), count * layers).tolist(),
        trace.topk_ids[start:end].reshape(-1).tolist(),
    ]
    if trace.topk_weights is not None:
        weights = trace.topk_weights[start:end].reshape(-1)
        # Digits that tell every value of the type from its neighbours.
        form = "%.5g" if weights.dtype == np.float16 else "%.9g"
        columns.append([form % value for value in weights.tolist()])
    if trace.expert_bytes is not None:
        columns.append(per_layer(trace.expert_bytes))
    if trace.token_ids is not None:
        columns.append(per_token(trace.token_ids[start:end]))
    if trace.padding.any():
        columns.append(per_token(trace.padding[start:end]))
    return "".join(",".join(map(str, row)) + "\n" for row in zip(*columns, strict=True))
