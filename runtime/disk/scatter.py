"""One consecutive range of a file, read into several places of memory in as few calls as alignment allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from prescope.runtime.disk.buffers import BufferPool
from prescope.runtime.disk.files import DiskFile
from prescope.runtime.disk.memory import address_of

# Most buffers that one call takes (IOV_MAX is 1024 on Linux and macOS).
_MOST_BUFFERS = 512
_LONG_COPY_BYTES = 1 << 16


class Target(NamedTuple):
    """A range of a file and the memory it belongs in, byte for byte."""

    offset_bytes: int
    memory: memoryview


class _Span(NamedTuple):
    """An aligned range of the file: read straight into memory, or, without any, by way of a bounce buffer."""

    begin: int
    end: int
    memory: memoryview | None


def read_into(file: DiskFile, targets: Sequence[Target], bounce: BufferPool) -> int:
    """Fill targets that follow each other in the file without gaps.

    Where the memory's address and the place in the file differ by whole blocks, the disk writes straight into
    it, except for the blocks at its ends, which it shares with its neighbours; they, and memory that lies
    otherwise, are read into a bounce buffer and copied.

    Returns
    -------
    int
        Bytes taken from the disk, alignment included.

    Raises
    ------
    DiskReadError
        When the disk fails; the targets' content is undefined then.
    """
    end = targets[-1].offset_bytes + len(targets[-1].memory)
    with bounce.lend() as buffer:
        usable = buffer[: len(buffer) // file.block_bytes * file.block_bytes]
        return sum(
            _read_batch(file, batch, targets, end, usable)
            for batch in _batches(_spans(targets, end, file.block_bytes), len(usable), file.block_bytes)
        )


def needs_bounce(file: DiskFile, targets: Sequence[Target]) -> bool:
    """Whether some memory lies at another phase than its place in the file and has to be copied to."""
    return any(not _in_phase(target, file.block_bytes) for target in targets)


def _in_phase(target: Target, block: int) -> bool:
    return block == 1 or (address_of(target.memory) - target.offset_bytes) % block == 0


def _spans(targets: Sequence[Target], end: int, block: int) -> Iterator[_Span]:
    """Cut the aligned range around the targets into what goes straight and what does not."""
    position = targets[0].offset_bytes // block * block
    for offset, memory in targets:
        inner = -(-offset // block) * block
        outer = (offset + len(memory)) // block * block
        if inner >= outer or not _in_phase(Target(offset, memory), block):
            continue
        if position < inner:
            yield _Span(position, inner, None)
        yield _Span(inner, outer, memory[inner - offset : outer - offset])
        position = outer
    if position < end:
        yield _Span(position, -(-end // block) * block, None)


def _batches(spans: Iterator[_Span], capacity: int, block: int) -> Iterator[list[_Span]]:
    """Group spans into calls, no more to be bounced in one than the buffer holds."""
    batch: list[_Span] = []
    room = capacity
    for span in spans:
        begin = span.begin
        while begin < span.end:
            if len(batch) == _MOST_BUFFERS or (span.memory is None and room < block):
                yield batch
                batch, room = [], capacity
            if span.memory is not None:
                batch.append(span)
                break
            cut = min(span.end, begin + room)
            batch.append(_Span(begin, cut, None))
            room -= cut - begin
            begin = cut
    if batch:
        yield batch


def _read_batch(
    file: DiskFile, batch: list[_Span], targets: Sequence[Target], end: int, buffer: memoryview
) -> int:
    buffers, bounced, used = [], [], 0
    for span in batch:
        if span.memory is not None:
            buffers.append(span.memory)
            continue
        part = buffer[used : used + span.end - span.begin]
        used += len(part)
        buffers.append(part)
        bounced.append((span, part))
    begin = batch[0].begin
    got = file.read(buffers, begin, needed_bytes=min(batch[-1].end, end) - begin)
    for span, part in bounced:
        _copy_out(span, part, targets)
    return got


def _copy_out(span: _Span, part: memoryview, targets: Sequence[Target]) -> None:
    for offset, memory in targets:
        first, last = max(span.begin, offset), min(span.end, offset + len(memory))
        if first >= last:
            continue
        source = part[first - span.begin : last - span.begin]
        if len(source) < _LONG_COPY_BYTES:
            memory[first - offset : last - offset] = source
        else:
            # Through numpy, which lets other threads run meanwhile.
            np.copyto(
                np.frombuffer(memory, np.uint8, last - first, first - offset), np.frombuffer(source, np.uint8)
            )
