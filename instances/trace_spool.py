"""Collects a trace piece by piece on disk, so that a long recording takes little memory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from prescope.instances._npz import ArraySource, InMemory
from prescope.instances.limits import MAX_TRACE_BYTES
from prescope.instances.routing_trace import RoutingTrace, TraceMeta
from prescope.instances.trace_file import compact_ids, write_arrays

_PER_TOKEN = ("topk_ids", "topk_weights", "phase", "padding", "hidden", "token_ids")
_PER_LAYER = ("expert_bytes", "dense_bytes")
_BLOCK_BYTES = 1 << 22


@dataclass(slots=True)
class _Column:
    """One array on disk; the file has no name, so nothing is left of it whatever happens."""

    stream: IO[bytes]
    width: tuple[int, ...]
    dtype: np.dtype[Any]
    rows: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.rows, *self.width)

    def append(self, array: npt.NDArray[Any]) -> None:
        if array.shape[1:] != self.width or array.dtype != self.dtype:
            raise ValueError(
                f"expected rows of {self.width} {self.dtype} as before, got {array.shape[1:]} {array.dtype}"
            )
        self.stream.write(np.ascontiguousarray(array).data)
        self.rows += len(array)

    def blocks(self) -> Iterator[bytes | memoryview]:
        self.stream.seek(0)
        while block := self.stream.read(_BLOCK_BYTES):
            yield block


class TraceSpool:
    """Traces of one model, appended one after the other, and written as one.

    Parameters
    ----------
    folder
        Where the pieces go, in files without a name: best beside the trace.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = folder
        self._columns: dict[str, _Column] = {}
        self._sizes: dict[str, npt.NDArray[np.int64]] = {}
        self._offsets: list[npt.NDArray[np.int64]] = [np.zeros(1, dtype=np.int64)]
        self._meta: TraceMeta | None = None
        self.tokens = 0
        self.sequences = 0
        self.size_bytes = 0

    def __enter__(self) -> TraceSpool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Forget everything."""
        for column in self._columns.values():
            column.stream.close()

    def append(self, trace: RoutingTrace) -> None:
        """Add the sequences of a trace.

        Raises
        ------
        ValueError
            When it is of another model or has other arrays than those before, or all would be too large.
        OSError
            When the disk is full.
        """
        arrays: dict[str, npt.NDArray[Any]] = {
            name: array for name in _PER_TOKEN if (array := getattr(trace, name)) is not None
        }
        arrays["topk_ids"] = compact_ids(trace.topk_ids, trace.meta.experts)
        added_bytes = sum(array.nbytes for array in arrays.values())
        if self.size_bytes + added_bytes > MAX_TRACE_BYTES:
            raise ValueError(
                f"expected a trace of at most {MAX_TRACE_BYTES} bytes, got {self.size_bytes + added_bytes} "
                f"at {self.tokens + trace.tokens} tokens: record less, or into several files"
            )
        sizes = {name: array for name in _PER_LAYER if (array := getattr(trace, name)) is not None}
        if self._meta is None:
            self._meta, self._sizes = trace.meta, sizes
            for name, array in arrays.items():
                stream = tempfile.TemporaryFile(dir=self._folder)
                self._columns[name] = _Column(stream, array.shape[1:], array.dtype)
        same_sizes = all(
            np.array_equal(self._sizes.get(name, ()), sizes.get(name, ())) for name in _PER_LAYER
        )
        if trace.meta != self._meta or set(arrays) != set(self._columns) or not same_sizes:
            raise ValueError("expected a trace of the same model with the same arrays as before, got another")
        for name, array in arrays.items():
            self._columns[name].append(array)
        self._offsets.append(self.tokens + trace.seq_offsets[1:])
        self.tokens += trace.tokens
        self.sequences += trace.sequences
        self.size_bytes += added_bytes

    def write(self, path: str | os.PathLike[str]) -> str:
        """Write the trace file atomically and return its checksum; raises like `write_trace`.

        Raises
        ------
        ValueError
            When nothing was appended.
        """
        if self._meta is None:
            raise ValueError("expected at least one recorded sequence, got none")
        arrays: dict[str, ArraySource] = {
            "topk_ids": self._columns["topk_ids"],
            "seq_offsets": InMemory(np.concatenate(self._offsets)),
            "phase": self._columns["phase"],
        }
        # In the order of the fields, so that the file is the one that the whole trace would make.
        for name in ("topk_weights", "padding", "hidden", *_PER_LAYER, "token_ids"):
            if name in self._columns:
                arrays[name] = self._columns[name]
            elif name in self._sizes:
                arrays[name] = InMemory(self._sizes[name])
        return write_arrays(path, self._meta, arrays)
