"""Time of copies inside memory against their size."""

from __future__ import annotations

from itertools import count

import torch

from prescope.instances import MeasuredSeries
from prescope.runtime.profile.settings import ProfileSettings
from prescope.runtime.profile.threads import intra_op_threads
from prescope.runtime.profile.timing import Clock, Probe, measure, now_ns, timed

_LEAST_BYTES = 64 * 2**20


def time_copies(settings: ProfileSettings, *, threads: int, clock: Clock = now_ns) -> MeasuredSeries:
    """Time a copy of every size, from and to places that are in no cache.

    Parameters
    ----------
    settings
        Sizes, repeats.
    threads
        Threads that copy together.
    clock
        The time.
    """
    room = max(_LEAST_BYTES, 2 * max(settings.copy_bytes))
    source = torch.ones(room, dtype=torch.uint8)
    target = torch.ones(room, dtype=torch.uint8)

    def probe(size: int) -> Probe:
        places, turns = room // size, count()

        def copy() -> None:
            # Far from the last place: neither the caches nor the prefetchers have it.
            begin = next(turns) * 7 % places * size
            target[begin : begin + size].copy_(source[begin : begin + size])

        return Probe(x=size, run=timed(copy, clock))

    with torch.no_grad(), intra_op_threads(threads):
        (points,) = measure(
            [probe(size) for size in settings.copy_bytes], effort=settings.effort, clock=clock
        )
    label = f"{threads} thread{'s' if threads > 1 else ''}"
    return MeasuredSeries(kind="copy", label=label, workers=threads, points=points)
