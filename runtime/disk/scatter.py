"""One consecutive range of a file, read into several places of memory in as few calls as alignment allows."""

from __future__ import annotations

import functools
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
    """An aligned range of the file: read straight into a target, or, without one, into the bounce buffer."""

    begin: int
    end: int
    target: int | None


class _Copy(NamedTuple):
    """What goes from the bounce buffer to a target."""

    source: int
    target: int
    first: int
    last: int


class _Call(NamedTuple):
    """One call of the system."""

    begin: int
    """Place in the file."""
    needed_bytes: int
    buffers: tuple[tuple[int | None, int, int], ...]
    """Target, or ``None`` for the bounce buffer, and the range of it to fill."""
    copies: tuple[_Copy, ...]


def read_into(file: DiskFile, targets: Sequence[Target], *, small: BufferPool, large: BufferPool) -> int:
    """Fill targets that follow each other in the file without gaps.

    Where the memory's address and the place in the file differ by whole blocks, the disk writes straight into
    it, except for the blocks at its ends, which it shares with its neighbours; they, and memory that lies
    otherwise, are read into a bounce buffer and copied.

    Parameters
    ----------
    file, targets
        What to read.
    small, large
        Lend bounce buffers: for the shared blocks alone, and for more.

    Returns
    -------
    int
        Bytes taken from the disk, alignment included.

    Raises
    ------
    DiskReadError
        When the disk fails; the targets' content is undefined then.
    """
    block = file.block_bytes
    extents = tuple((offset, len(memory), _in_phase(offset, memory, block)) for offset, memory in targets)
    pool = small if all(in_phase for _, _, in_phase in extents) else large
    taken = 0
    with pool.lend() as bounce:
        for call in _calls(extents, block, pool.size_bytes // block * block):
            buffers = [
                (bounce if target is None else targets[target].memory)[first:last]
                for target, first, last in call.buffers
            ]
            taken += file.read(buffers, call.begin, needed_bytes=call.needed_bytes)
            for source, target, first, last in call.copies:
                _copy(bounce[source : source + last - first], targets[target].memory[first:last])
    return taken


def _in_phase(offset: int, memory: memoryview, block: int) -> bool:
    return block == 1 or (address_of(memory) - offset) % block == 0


def _copy(source: memoryview, target: memoryview) -> None:
    if len(source) < _LONG_COPY_BYTES:
        target[:] = source
    else:
        # Through numpy, which lets other threads run meanwhile.
        np.copyto(np.frombuffer(target, np.uint8), np.frombuffer(source, np.uint8))


# The same experts are read over and over; to work this out is half of the work of a read.
@functools.lru_cache(maxsize=1 << 13)
def _calls(extents: tuple[tuple[int, int, bool], ...], block: int, capacity: int) -> tuple[_Call, ...]:
    """How to read consecutive extents ``(offset, size, in phase)`` with so large a bounce buffer."""
    end = extents[-1][0] + extents[-1][1]
    return tuple(
        _call(batch, extents, end) for batch in _batches(_spans(extents, end, block), capacity, block)
    )


def _spans(extents: Sequence[tuple[int, int, bool]], end: int, block: int) -> Iterator[_Span]:
    """Cut the aligned range around the extents into what goes straight and what does not."""
    position = extents[0][0] // block * block
    for index, (offset, size, in_phase) in enumerate(extents):
        inner = -(-offset // block) * block
        outer = (offset + size) // block * block
        if inner >= outer or not in_phase:
            continue
        if position < inner:
            yield _Span(position, inner, None)
        yield _Span(inner, outer, index)
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
            if len(batch) == _MOST_BUFFERS or (span.target is None and room < block):
                yield batch
                batch, room = [], capacity
            if span.target is not None:
                batch.append(span)
                break
            cut = min(span.end, begin + room)
            batch.append(_Span(begin, cut, None))
            room -= cut - begin
            begin = cut
    if batch:
        yield batch


def _call(batch: Sequence[_Span], extents: Sequence[tuple[int, int, bool]], end: int) -> _Call:
    buffers: list[tuple[int | None, int, int]] = []
    copies: list[_Copy] = []
    used = 0
    for span in batch:
        if span.target is not None:
            offset = extents[span.target][0]
            buffers.append((span.target, span.begin - offset, span.end - offset))
            continue
        buffers.append((None, used, used + span.end - span.begin))
        for target, (offset, size, _) in enumerate(extents):
            first, last = max(span.begin, offset), min(span.end, offset + size)
            if first < last:
                copies.append(_Copy(used + first - span.begin, target, first - offset, last - offset))
        used += span.end - span.begin
    begin = batch[0].begin
    return _Call(begin, min(batch[-1].end, end) - begin, tuple(buffers), tuple(copies))
