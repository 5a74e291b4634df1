"""How much of what can be gained on residents that never move a residency rule gains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prescope.bench.row import BenchRow

STATIC = "static"
OFFLINE = ("belady", "flow")
"""Rules whose best plan in the sweep is what can be gained."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gains:
    """Sums over runs, in nanoseconds.

    Parameters
    ----------
    own_ns
        Time saved against residents that never move, steps planned by the same planner.
    offline_ns
        Time that the best plan saves of rules that know all demand, with the same planner.
    """

    own_ns: int
    offline_ns: int

    @property
    def share(self) -> float | None:
        """The first divided by the second; ``None`` where nothing can be gained."""
        return self.own_ns / self.offline_ns if self.offline_ns > 0 else None


Peers = dict[tuple[str, str, str, int], dict[str, int]]


def peers(rows: Sequence[BenchRow]) -> Peers:
    """Totals of a sweep's horizons by rule, for each instance, planner, limit and seed."""
    found: Peers = {}
    for row in rows:
        if row.steps is not None and row.makespan_ns is not None:
            rule, _, planner = row.method.partition("+")
            found.setdefault((row.instance, planner, row.limit, row.seed), {})[rule] = row.makespan_ns
    return found


def gains(rows: Sequence[BenchRow], known: Peers) -> Gains | None:
    """What rows of horizons gain; ``None`` where the sweep lacks what it is measured against."""
    own_ns = offline_ns = count = 0
    for row in rows:
        _, _, planner = row.method.partition("+")
        here = known.get((row.instance, planner, row.limit, row.seed), {})
        offline = [here[rule] for rule in OFFLINE if rule in here]
        if row.makespan_ns is None or STATIC not in here or not offline:
            continue
        count += 1
        own_ns += here[STATIC] - row.makespan_ns
        offline_ns += here[STATIC] - min(offline)
    return Gains(own_ns=own_ns, offline_ns=offline_ns) if count else None


def hit_rate(rows: Sequence[BenchRow]) -> float | None:
    """Uses whose expert was resident when the step began, of all uses; ``None`` without any."""
    uses = sum(row.uses or 0 for row in rows)
    return sum(row.hits or 0 for row in rows) / uses if uses else None
