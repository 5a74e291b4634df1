"""The disk's side of every read: open files, buffers, and what was moved."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from prescope.runtime.disk.buffers import BufferPool
from prescope.runtime.disk.calls import SystemCalls
from prescope.runtime.disk.checkpoint import Checkpoint
from prescope.runtime.disk.dtypes import ITEM_BYTES, torch_dtype
from prescope.runtime.disk.files import BLOCK_BYTES, DiskFile
from prescope.runtime.disk.filesystem import IN_MEMORY, filesystem_type
from prescope.runtime.disk.layout import Segment, consecutive_runs
from prescope.runtime.disk.scatter import Target, read_into

if TYPE_CHECKING:
    from torch import Tensor

STAGING_BYTES = 4 << 20
_SMALL_BYTES = 16 * BLOCK_BYTES
# Most reads at once; others wait. Far above the depth at which a disk is busy.
_MOST_READS = 64
# Below the size from which torch would cast with several threads, which belong to the computation.
_CAST_ELEMENTS = 32_000


class Rail:
    """Reads ranges of a checkpoint's files into flat tensors. Thread-safe.

    Parameters
    ----------
    checkpoint
        Where the ranges are.
    calls
        The system's calls.
    staging_buffers
        Most large buffers at once; reads that need one wait for it.

    Raises
    ------
    DiskReadError
        When a file cannot be opened or changed since its header was read.
    """

    def __init__(self, checkpoint: Checkpoint, *, calls: SystemCalls, staging_buffers: int) -> None:
        self._staging = BufferPool(size_bytes=STAGING_BYTES, most=staging_buffers)
        self._small = BufferPool(size_bytes=_SMALL_BYTES, most=_MOST_READS)
        self._count = threading.Lock()
        self.bytes_read = 0
        self.reads = 0
        self.files: list[DiskFile] = []
        self._kinds = [filesystem_type(file) for file in checkpoint.files]
        try:
            for file in checkpoint.files:
                size_bytes = checkpoint.file_size_bytes(file)
                self.files.append(DiskFile(file, size_bytes=size_bytes, calls=calls, probes=self._small))
        except BaseException:
            self.close()
            raise

    @property
    def staging_bytes(self) -> int:
        """Most memory that buffers take."""
        return sum(pool.size_bytes * pool.most for pool in (self._staging, self._small))

    @property
    def block_bytes(self) -> int:
        """The largest block that any file's reads need; 1 when all go through the page cache."""
        return max(file.block_bytes for file in self.files)

    @property
    def direct(self) -> bool:
        """Whether all files are read past the page cache."""
        return all(file.direct for file in self.files)

    def degraded(self) -> tuple[str, ...]:
        """What is not as wanted, once per kind and file system, in sentences."""
        found: dict[str, list[DiskFile]] = {}
        for file, kind in zip(self.files, self._kinds, strict=True):
            if kind in IN_MEMORY:
                what = f"{kind} keeps files in memory: the checkpoint takes memory outside the budget"
            elif not file.direct:
                what = (
                    f"{file.refusal} on {kind or 'an unknown file system'}: reads go through the page cache, "
                    "which forgets them at once; slower"
                )
            else:
                continue
            found.setdefault(what, []).append(file)
        return tuple(
            f"{files[0].file}{f' and {len(files) - 1} more' if len(files) > 1 else ''}: {what}"
            for what, files in found.items()
        )

    def close(self) -> None:
        """Close all files; idempotent."""
        for file in self.files:
            file.close()

    def read(self, segments: tuple[Segment, ...], row: Tensor) -> int:
        """Fill a flat, contiguous tensor; cast where the file's type is another. Returns bytes from the disk.

        Raises
        ------
        DiskReadError
            When the disk fails.
        """
        memory = _memory(row)
        taken = 0
        for run in consecutive_runs(segments):
            if torch_dtype(run[0].dtype) == row.dtype:
                taken += self._read_plain(run, row.element_size(), memory)
            else:
                taken += sum(self._read_cast(segment, row, memory) for segment in run)
        with self._count:
            self.bytes_read += taken
            self.reads += 1
        return taken

    def _read_plain(self, run: Sequence[Segment], item: int, memory: memoryview) -> int:
        targets = [
            Target(part.offset_bytes, memory[part.first * item : (part.first + part.elements) * item])
            for part in run
        ]
        file = self.files[run[0].file]
        return read_into(file, targets, small=self._small, large=self._staging)

    def _read_cast(self, segment: Segment, row: Tensor, memory: memoryview) -> int:
        """Read in pieces of a staging buffer and convert each while it is in the cache."""
        import torch

        source = torch_dtype(segment.dtype)
        item = ITEM_BYTES[segment.dtype]
        file = self.files[segment.file]
        block = file.block_bytes
        taken, done = 0, 0
        # Ordinary tensors over the same memory, whatever mode the row was made in.
        out = torch.frombuffer(memory, dtype=row.dtype)
        with self._staging.lend() as buffer:
            whole = len(buffer) // block * block
            while done < segment.elements:
                begin = segment.offset_bytes + done * item
                head = begin % block
                count = min(segment.elements - done, (whole - head) // item)
                needed = head + count * item
                taken += file.read([buffer[: -(-needed // block) * block]], begin - head, needed_bytes=needed)
                got = torch.frombuffer(buffer, dtype=source, count=count, offset=head)
                for first in range(0, count, _CAST_ELEMENTS):
                    part = got[first : first + _CAST_ELEMENTS]
                    at = segment.first + done + first
                    out[at : at + len(part)].copy_(part)
                done += count
        return taken


def _memory(row: Tensor) -> memoryview:
    """The bytes of a flat contiguous tensor, for as long as the caller keeps it alive."""
    size = row.numel() * row.element_size()
    return memoryview((ctypes.c_char * size).from_address(row.data_ptr())).cast("B")
