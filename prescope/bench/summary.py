"""What rows come to, per set and method."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from prescope.bench.horizon_shares import Peers, gains, hit_rate, peers
from prescope.bench.row import BenchRow, Kind, RowStatus, relative_gap
from prescope.bench.settings import DEFAULT_LIMIT
from prescope.bench.statistics import mean, percentile, primal_integral_ns, shifted_geometric_mean

Key = TypeVar("Key")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """One method on one set; ``None`` where there is nothing to tell.

    Parameters
    ----------
    set, method
        Which; the method with its limit where that is not the default, and with ``(followed)`` behind it
        where predicted demand was planned once.
    kind
        What its makespans are.
    runs, without_plan, errors, violations
        Runs; of those, runs without a plan (the method does not apply, or found none), broken ones, and
        those that beat a bound said to be proved.
    optimal, proved
        Runs whose plan meets the bound; runs whose plan meets the bound known in that run alone.
    gap_to_bound_mean, gap_to_bound_max
        To the best bound proved for the instance, by the library or any run here.
    gap_to_best_mean, gap_to_best_max
        To the library's best plan; negative where it was improved on.
    plan_time_sgm_ns, plan_time_p99_ns
        Shifted geometric mean and 99th percentile of the plan time.
    share_mean, share_p99, share_max
        Plan time divided by the makespan it plans.
    primal_integral_sgm_ns
        Of anytime solvers.
    hit_rate
        Of horizons: uses whose expert was resident when the step began.
    offline_share
        Of horizons: time saved against residents that never move, by what the best plan here saves of rules
        that know all demand; same planner, sum over sum.
    """

    set: str
    method: str
    kind: Kind
    runs: int
    without_plan: int
    errors: int
    violations: int
    optimal: int
    proved: int
    gap_to_bound_mean: float | None
    gap_to_bound_max: float | None
    gap_to_best_mean: float | None
    gap_to_best_max: float | None
    plan_time_sgm_ns: float | None
    plan_time_p99_ns: float | None
    share_mean: float | None
    share_p99: float | None
    share_max: float | None
    primal_integral_sgm_ns: float | None
    hit_rate: float | None = None
    offline_share: float | None = None


class References(NamedTuple):
    """What is known of an instance from all its rows."""

    lower_bound_ns: int | None
    best_known_ns: int | None
    best_here_ns: int | None
    longest_ns: int


def label(row: BenchRow) -> str:
    """Name of a row's method in tables."""
    name = row.method if row.limit == DEFAULT_LIMIT else f"{row.method}@{row.limit}"
    return f"{name} (followed)" if row.kind is Kind.FOLLOWED else name


def references(rows: Sequence[BenchRow]) -> dict[str, References]:
    """Per instance, the best bound, the library's best, the best here, and the longest plan time."""
    found = {}
    for name, mine in _grouped(rows, lambda row: row.instance).items():
        bounds = [row.lower_bound_ns for row in mine if row.lower_bound_ns is not None]
        known = [row.best_known_ns for row in mine if row.best_known_ns is not None]
        here = [row.makespan_ns for row in mine if row.makespan_ns is not None]
        found[name] = References(
            lower_bound_ns=max(bounds, default=None),
            best_known_ns=min(known, default=None),
            best_here_ns=min(here, default=None),
            longest_ns=max((row.plan_time_ns or 0 for row in mine), default=0),
        )
    return found


def violations(rows: Sequence[BenchRow]) -> list[BenchRow]:
    """Rows below the best bound known for their instance: either the bound or the plan is wrong."""
    known = references(rows)
    return [
        row
        for row in rows
        if row.makespan_ns is not None
        and (bound := known[row.instance].lower_bound_ns) is not None
        and row.makespan_ns < bound
    ]


def summarise(rows: Sequence[BenchRow]) -> list[GroupSummary]:
    """One summary per set and method, in order of first appearance."""
    known = references(rows)
    groups = _grouped(rows, lambda row: (row.set, label(row)))
    others = peers(rows)
    return [_summary(set_, method, mine, known, others) for (set_, method), mine in groups.items()]


def ratios(rows: Sequence[BenchRow]) -> dict[str, list[float]]:
    """Per method, its makespans divided by the shortest here of the same instance; infinity without one."""
    known = references(rows)
    found: dict[str, list[float]] = {}
    for row in rows:
        best = known[row.instance].best_here_ns
        if best is not None:
            made = row.makespan_ns
            found.setdefault(label(row), []).append(math.inf if made is None else made / max(best, 1))
    return found


def incumbents(row: BenchRow) -> list[tuple[int, int]]:
    """``(time_ns, makespan_ns)`` of a row's better and better plans; a one-shot method's one plan."""
    if row.incumbents:
        pairs = (text.split(":") for text in row.incumbents.split())
        return [(int(time), int(made)) for time, made in pairs]
    if row.makespan_ns is None or row.plan_time_ns is None:
        return []
    return [(row.plan_time_ns, row.makespan_ns)]


def _summary(
    set_: str, method: str, rows: list[BenchRow], known: dict[str, References], others: Peers
) -> GroupSummary:
    made = [row for row in rows if row.makespan_ns is not None]
    to_bound = _gaps(made, known, "lower_bound_ns")
    to_best = _gaps(made, known, "best_known_ns")
    times = [row.plan_time_ns for row in made if row.plan_time_ns is not None]
    shares = [
        row.plan_time_ns / row.makespan_ns for row in made if row.plan_time_ns is not None and row.makespan_ns
    ]
    saved = gains(made, others)
    integrals = []
    if any(row.incumbents for row in rows):
        for row in rows:
            reference = known[row.instance]
            bests = [ns for ns in (reference.best_known_ns, reference.best_here_ns) if ns is not None]
            if bests:
                integrals.append(primal_integral_ns(incumbents(row), min(bests), reference.longest_ns))
    return GroupSummary(
        set=set_,
        method=method,
        kind=rows[0].kind,
        runs=len(rows),
        without_plan=sum(row.status in (RowStatus.NO_PLAN, RowStatus.UNSUITABLE) for row in rows),
        errors=sum(row.status is RowStatus.ERROR for row in rows),
        violations=sum(gap < 0 for gap in to_bound),
        optimal=sum(gap == 0 for gap in to_bound),
        proved=sum(row.makespan_ns == row.own_bound_ns for row in made),
        gap_to_bound_mean=mean(to_bound),
        gap_to_bound_max=max(to_bound, default=None),
        gap_to_best_mean=mean(to_best),
        gap_to_best_max=max(to_best, default=None),
        plan_time_sgm_ns=shifted_geometric_mean(times),
        plan_time_p99_ns=percentile(times, 99),
        share_mean=mean(shares),
        share_p99=percentile(shares, 99),
        share_max=max(shares, default=None),
        primal_integral_sgm_ns=shifted_geometric_mean(integrals),
        hit_rate=hit_rate(made),
        offline_share=None if saved is None else saved.share,
    )


def _gaps(rows: list[BenchRow], known: dict[str, References], reference: str) -> list[float]:
    found = (relative_gap(row.makespan_ns, getattr(known[row.instance], reference)) for row in rows)
    return [gap for gap in found if gap is not None]


def _grouped(rows: Sequence[BenchRow], key: Callable[[BenchRow], Key]) -> dict[Key, list[BenchRow]]:
    groups: dict[Key, list[BenchRow]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups
