"""Time of reads from the checkpoint, several in flight."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import cycle

import torch

from prescope.instances import MeasuredSeries
from prescope.runtime.profile.raw_file import RawFile
from prescope.runtime.profile.settings import ProfileSettings
from prescope.runtime.profile.stored_experts import StoredExperts, shuffled_experts
from prescope.runtime.profile.timing import Clock, Probe, measure, now_ns

Read = Callable[[int], object]
"""Reads something, the next one each time; gets the number of the reader."""


def time_per_read(read: Read, *, depth: int, reads: int, clock: Clock) -> int:
    """Time per read while ``depth`` are in flight, in nanoseconds.

    The time of ``reads * depth`` reads divided by their number: what a chain of reads advances by.

    Parameters
    ----------
    read
        Called from ``depth`` threads.
    depth, reads
        Reads in flight, and how many each thread does.
    clock
        The time, read on the calling thread.
    """
    if depth == 1:
        began_ns = clock()
        for _ in range(reads):
            read(0)
        return (clock() - began_ns) // reads
    with ThreadPoolExecutor(depth) as pool:
        ready = threading.Barrier(depth + 1)

        def reader(worker: int) -> None:
            ready.wait()
            for _ in range(reads):
                read(worker)

        try:
            running = [pool.submit(reader, worker) for worker in range(depth)]
            ready.wait()
        except BaseException:
            # Interrupted before all had begun: those that wait would wait for ever.
            ready.abort()
            raise
        began_ns = clock()
        for future in running:
            future.result()
        return (clock() - began_ns) // (reads * depth)


def time_expert_reads(
    store: StoredExperts, settings: ProfileSettings, *, clock: Clock = now_ns
) -> MeasuredSeries:
    """Time per expert for every number of reads in flight."""
    read = expert_reader(store, max(settings.depths), settings.seed)

    def probe(depth: int) -> Probe:
        return Probe(
            x=depth,
            run=lambda: (time_per_read(read, depth=depth, reads=settings.reads, clock=clock),),
        )

    (points,) = measure([probe(depth) for depth in settings.depths], effort=settings.effort, clock=clock)
    return MeasuredSeries(kind="expert-read", label="one expert", workers=1, points=points)


def time_raw_reads(
    file: RawFile, settings: ProfileSettings, *, depth: int, clock: Clock = now_ns
) -> MeasuredSeries | None:
    """Time per read of every size with ``depth`` in flight; sizes beyond the file are left out.

    Returns
    -------
    MeasuredSeries or None
        ``None`` when the file is smaller than every size.
    """
    sizes = [size for size in settings.read_bytes if size <= file.size_bytes]
    if not sizes:
        return None

    def probe(size: int) -> Probe:
        read = file.reader(size, workers=depth, seed=settings.seed)
        return Probe(
            x=size,
            run=lambda: (time_per_read(read, depth=depth, reads=settings.reads, clock=clock),),
        )

    (points,) = measure([probe(size) for size in sizes], effort=settings.effort, clock=clock)
    return MeasuredSeries(kind="read", label=f"{depth} in flight", workers=depth, points=points)


def expert_reader(store: StoredExperts, workers: int, seed: int) -> Read:
    """Reads the experts in random order, each worker into a slot of its own."""
    width = max(store.slot_elements(layer) for layer in range(store.layers))
    slots = torch.empty(workers, width, dtype=store.dtype)
    turns = cycle(shuffled_experts(store, seed))
    turn = threading.Lock()

    def read(worker: int) -> None:
        with turn:
            layer, expert = next(turns)
        store.read(layer, expert, store.place(layer, expert, slots[worker]))

    return read


@contextmanager
def while_reading(read: Read, depth: int) -> Iterator[None]:
    """Keep ``depth`` reads in flight inside the block; an error of one is raised at its end."""
    stop = threading.Event()

    def reader(worker: int) -> None:
        while not stop.is_set():
            read(worker)

    with ThreadPoolExecutor(depth) as pool:
        running = [pool.submit(reader, worker) for worker in range(depth)]
        try:
            yield
        finally:
            stop.set()
        for future in running:
            future.result()
