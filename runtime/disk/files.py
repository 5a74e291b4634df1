"""One file of a checkpoint, open for reading by several threads, and opened again after a fault."""

from __future__ import annotations

import errno
import mmap
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from prescope.runtime.disk.buffers import BufferPool
from prescope.runtime.disk.calls import SystemCalls
from prescope.runtime.disk.errors import DiskReadError

# Places, lengths and addresses of direct reads are multiples of this. Many disks ask for 512 only, but are
# 10 % slower then: their blocks, and the pages of memory, are 4096.
BLOCK_BYTES = 4096


class _Descriptor:
    """An open descriptor, closed by whoever lets go of it last."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.users = 0
        self.retired = False


class DiskFile:
    """A file read past the page cache where the system allows it, and through it, dropped at once, elsewhere.

    Parameters
    ----------
    file
        The file.
    size_bytes
        Its size when its header was read; a file of another size is refused.
    calls
        The system's calls.
    probes
        Lends buffers of at least two blocks, to find out whether direct reads work.

    Raises
    ------
    DiskReadError
        When the file cannot be opened, or has another size.
    """

    def __init__(self, file: Path, *, size_bytes: int, calls: SystemCalls, probes: BufferPool) -> None:
        self.file = file
        self.size_bytes = size_bytes
        self.refusal = ""
        """Why direct reads are not possible; empty when they are."""
        self.block_bytes = 1
        """What places, lengths and addresses of reads must be multiples of."""
        self._calls = calls
        self._lock = threading.Lock()
        self._closed = False
        self._descriptor: _Descriptor | None = None
        self._find_out(probes)
        self._descriptor = self._open(0, size_bytes)

    @property
    def direct(self) -> bool:
        """Whether reads bypass the page cache."""
        return not self.refusal

    def close(self) -> None:
        """Close the file, at the end of the reads in flight; idempotent."""
        with self._lock:
            self._closed = True
            self._retire(self._descriptor)

    def read(self, buffers: Sequence[memoryview], offset_bytes: int, *, needed_bytes: int) -> int:
        """Fill buffers in order from one place; at least the first ``needed_bytes``. Thread-safe.

        Places, lengths and addresses must be multiples of ``block_bytes``.

        Returns
        -------
        int
            Bytes that came; more than needed at most by what the buffers hold.

        Raises
        ------
        DiskReadError
            When the disk reports an error or the file ends early; the next read opens it again.
        """
        with self._lend(offset_bytes, needed_bytes) as descriptor:
            done = 0
            while done < needed_bytes:
                try:
                    got = self._calls.read(descriptor.number, _from(buffers, done), offset_bytes + done)
                except OSError as error:
                    self._forget(descriptor)
                    raise self._failure(offset_bytes, needed_bytes, done, error) from error
                if done + got < needed_bytes:
                    # Direct reads cannot go on inside a block: that block is read again.
                    got -= got % self.block_bytes
                    if got <= 0:
                        self._forget(descriptor)
                        raise self._failure(offset_bytes, needed_bytes, done, self._why_short(descriptor))
                done += got
            if not self.direct:
                self._drop_cache(descriptor, offset_bytes, done)
            return done

    def _why_short(self, descriptor: _Descriptor) -> str:
        try:
            size_bytes = self._calls.size_bytes(descriptor.number)
        except OSError as error:
            return f"the read came back short ({error})"
        if size_bytes != self.size_bytes:
            return self._other_size(size_bytes)
        return "the read came back short"

    def _other_size(self, size_bytes: int) -> str:
        return f"the file now has {size_bytes} bytes instead of {self.size_bytes}: put it back as it was"

    def _drop_cache(self, descriptor: _Descriptor, offset_bytes: int, size_bytes: int) -> None:
        page = mmap.PAGESIZE
        first = offset_bytes // page * page
        last = -(-(offset_bytes + size_bytes) // page) * page
        try:
            self._calls.drop_cache(descriptor.number, first, last - first)
        except OSError as error:
            self.refusal = f"{self.refusal.partition('; ')[0]}; and the page cache keeps it ({error})"

    @contextmanager
    def _lend(self, offset_bytes: int, needed_bytes: int) -> Iterator[_Descriptor]:
        with self._lock:
            if self._closed:
                raise ValueError(f"expected an open store, got a closed one ({self.file})")
            if self._descriptor is None:
                self._descriptor = self._open(offset_bytes, needed_bytes)
            descriptor = self._descriptor
            descriptor.users += 1
        try:
            yield descriptor
        finally:
            with self._lock:
                descriptor.users -= 1
                if descriptor.retired and not descriptor.users:
                    self._calls.close(descriptor.number)

    def _forget(self, descriptor: _Descriptor) -> None:
        """Let the next read open the file again."""
        with self._lock:
            self._retire(descriptor)

    def _retire(self, descriptor: _Descriptor | None) -> None:
        if descriptor is None or descriptor.retired:
            return
        descriptor.retired = True
        if self._descriptor is descriptor:
            self._descriptor = None
        if not descriptor.users:
            self._calls.close(descriptor.number)

    def _open(self, offset_bytes: int, needed_bytes: int) -> _Descriptor:
        try:
            number = self._calls.open(self.file, direct=self.direct)
        except OSError as error:
            raise self._failure(offset_bytes, needed_bytes, 0, error) from error
        try:
            size_bytes = self._calls.size_bytes(number)
        except OSError as error:
            self._calls.close(number)
            raise self._failure(offset_bytes, needed_bytes, 0, error) from error
        if size_bytes != self.size_bytes:
            self._calls.close(number)
            raise self._failure(offset_bytes, needed_bytes, 0, self._other_size(size_bytes))
        return _Descriptor(number)

    def _failure(self, offset_bytes: int, needed_bytes: int, got: int, why: str | OSError) -> DiskReadError:
        code = errno.EIO
        if isinstance(why, OSError):
            code = why.errno or errno.EIO
            why = why.strerror or str(why)
        return DiskReadError(
            file=self.file,
            offset_bytes=offset_bytes,
            expected_bytes=needed_bytes,
            got_bytes=got,
            reason=why,
            error=code,
        )

    def _find_out(self, probes: BufferPool) -> None:
        """Try to read directly; settle for the page cache when that does not work."""
        try:
            number = self._calls.open(self.file, direct=True)
        except OSError as error:
            self.refusal = f"direct reads are refused ({error.strerror or error})"
            return
        try:
            with probes.lend() as buffer:
                # Away from their beginnings: neither place nor address must need more than a block.
                offset = BLOCK_BYTES if self.size_bytes > BLOCK_BYTES else 0
                self._calls.read(number, [buffer[BLOCK_BYTES : 2 * BLOCK_BYTES]], offset)
            self.block_bytes = BLOCK_BYTES
        except OSError as error:
            self.refusal = f"direct reads fail ({error.strerror or error})"
        finally:
            self._calls.close(number)


def _from(buffers: Sequence[memoryview], done: int) -> Sequence[memoryview]:
    """What is left of buffers when their first ``done`` bytes are filled."""
    if not done:
        return buffers
    rest = []
    for buffer in buffers:
        if done < len(buffer):
            rest.append(buffer[done:])
        done = max(0, done - len(buffer))
    return rest
