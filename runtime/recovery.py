"""After a failed step: residents back in their rows, where rows are exchanged."""

from __future__ import annotations

from collections.abc import Sequence

from prescope.runtime.arena import DeviceArena
from prescope.runtime.backends.base import Backend
from prescope.runtime.builder import ProgramBuilder


def recover(builder: ProgramBuilder, arenas: Sequence[tuple[Backend, DeviceArena]]) -> int:
    """Restore the residents that there were before the failed step.

    Call it after `ProgramBuilder.abort_step` and `Backend.reset`.

    Parameters
    ----------
    builder
        Knows the rows and what the step may have written.
    arenas
        The backend that failed, first, and any others that run the same programs, each with its memory. The
        others read all residents again: which steps they have run is not asked.

    Returns
    -------
    int
        How many experts the first one read again.
    """
    (failed, memory), *others = arenas
    again = builder.recover(failed.slots.zombies())
    for row, layer, expert in again:
        memory.load(row, layer, expert)
    residents = builder.resident_rows()
    failed.slots.restore(residents)
    for backend, arena in others:
        backend.reset()
        for row, layer, expert in residents:
            arena.load(row, layer, expert)
        backend.slots.restore(residents)
    return len(again)
