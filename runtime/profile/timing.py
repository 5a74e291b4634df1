"""Timing in rounds: every size in turn, medians with quartiles, a budget of time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from prescope.formulation.checks import require_int
from prescope.instances import MeasuredPoint

Clock = Callable[[], int]
"""Reads a time in nanoseconds that never goes back."""

now_ns: Clock = time.perf_counter_ns
# Fewer do not make a median with quartiles.
_LEAST_ROUNDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Something to time at one size.

    Parameters
    ----------
    x
        The size.
    run
        Does the work once and returns how long each of its parts took, in nanoseconds; always equally many.
    """

    x: int
    run: Callable[[], Sequence[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much time measuring may take.

    Parameters
    ----------
    repeats
        Rounds that count, at least 3.
    budget_ns
        No further round is begun after that long, unless there are fewer than 3.
    """

    repeats: int
    budget_ns: int

    def __post_init__(self) -> None:
        require_int("repeats", self.repeats, _LEAST_ROUNDS)
        require_int("budget_ns", self.budget_ns, 0)


def timed(work: Callable[[], object], clock: Clock) -> Callable[[], Sequence[int]]:
    """Make `Probe.run` of work that is one part."""

    def run() -> Sequence[int]:
        began_ns = clock()
        work()
        return (clock() - began_ns,)

    return run


def measure(
    probes: Sequence[Probe], *, effort: Effort, clock: Clock = now_ns
) -> tuple[tuple[MeasuredPoint, ...], ...]:
    """Time probes in rounds, so that a disturbance does not hit one size alone.

    Parameters
    ----------
    probes
        At least one, ``x`` increasing. One round before those that count warms up.
    effort
        How often, and for how long.
    clock
        Decides when the budget is used up.

    Returns
    -------
    tuple of tuple of MeasuredPoint
        For each part of the work, one point per probe.

    Raises
    ------
    ValueError
        Without probes, or when a probe changes its number of parts.
    """
    if not probes:
        raise ValueError("expected at least one probe, got none")
    parts = [len(probe.run()) for probe in probes]
    if len(set(parts)) != 1:
        raise ValueError(f"expected equally many parts from every probe, got {parts}")
    rounds: list[list[Sequence[int]]] = [[] for _ in probes]
    began_ns = clock()
    for done in range(effort.repeats):
        if done >= _LEAST_ROUNDS and clock() - began_ns > effort.budget_ns:
            break
        for probe, durations in zip(probes, rounds, strict=True):
            durations.append(probe.run())
    return tuple(
        tuple(
            point_of(probe.x, [durations[part] for durations in turns])
            for probe, turns in zip(probes, rounds, strict=True)
        )
        for part in range(parts[0])
    )


def point_of(x: int, durations_ns: Sequence[int]) -> MeasuredPoint:
    """Median and quartiles of durations, all of them measured values (lower ones of even numbers)."""
    ordered = sorted(durations_ns)
    last = len(ordered) - 1
    return MeasuredPoint(
        x=x,
        median_ns=ordered[last // 2],
        low_ns=ordered[last // 4],
        high_ns=ordered[-(-3 * last // 4)],
        repeats=len(ordered),
    )
