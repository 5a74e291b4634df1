"""Executing policies in slow motion: how slow, and what if that was not slow enough."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic

from prescope.compare.bench import Bench
from prescope.compare.row import Row

# A measurement that something disturbed asks for too much; hardly all of them are disturbed.
_MEASUREMENTS = 3
# A busy machine can need more than was measured at rest: one more try, slower.
_STRETCH = 2.0


def execute(bench: Bench, simulated: Sequence[Row], progress: Callable[[str], None]) -> tuple[Row, ...]:
    """Execute every policy on worker threads.

    Parameters
    ----------
    bench
        What to run.
    simulated
        The same policies in virtual time, which say how long everything takes and have loaded all code that
        decides: loading it would otherwise happen within the first executed step.
    progress
        Called with a line of text before everything that takes time.
    """
    began = monotonic()
    budget_s = bench.settings.time_budget_s
    total_s = sum(row.simulated_ns for row in simulated) / 1e9
    dilation = bench.settings.dilation
    if dilation is None:
        progress("how slow the slow motion must be")
        dilation = min(bench.dilation() for _ in range(_MEASUREMENTS))
        if budget_s is not None:
            # Too fast shows as operations that overran, and their times are not quoted.
            dilation = min(dilation, max(1.0, budget_s / max(total_s, 1e-9)))
    rows = []
    for known in simulated:
        real_s = known.simulated_ns / 1e9 * dilation
        progress(f"{known.label}, {dilation:.0f} times slower: about {real_s:.0f} s")
        row = bench.run(known.policy, retention=known.retention, backend="cpu", dilation=dilation)
        left_s = None if budget_s is None else budget_s - (monotonic() - began)
        if (
            row.refused
            and bench.settings.dilation is None
            and (left_s is None or real_s * _STRETCH <= left_s)
        ):
            progress(f"{known.label} again, slower: {row.refused}")
            row = bench.run(
                known.policy, retention=known.retention, backend="cpu", dilation=dilation * _STRETCH
            )
        rows.append(row)
    return tuple(rows)
