"""Summaries as rows of text, for the terminal, markdown and CSV."""

from __future__ import annotations

from collections.abc import Sequence

from prescope.bench.row import BenchRow, Kind, RowStatus
from prescope.bench.statistics import performance_profile
from prescope.bench.summary import GroupSummary, ratios
from prescope.formulation import format_ns

GAP_HEADINGS = ("set", "method", "optimal", "proved", "to bound", "max", "to best", "max")
TIME_HEADINGS = ("set", "method", "plan time", "p99", "of the step", "p99")
HORIZON_HEADINGS = ("set", "method", "of the offline gain", "hit rate")
FACTORS = (1.0, 1.001, 1.01, 1.05, 1.1, 1.25, 1.5, 2.0)
LONGEST_ERROR = 400
PROFILE_HEADINGS = ("within", *(f"{factor:g}x" for factor in FACTORS))


def gap_cells(group: GroupSummary) -> tuple[str, ...]:
    """One summary under `GAP_HEADINGS`; ``-`` where there is nothing to tell."""
    return (
        group.set,
        _method(group),
        _optimal(group),
        str(group.proved),
        percent(group.gap_to_bound_mean),
        percent(group.gap_to_bound_max),
        percent(group.gap_to_best_mean),
        percent(group.gap_to_best_max),
    )


def time_cells(group: GroupSummary) -> tuple[str, ...]:
    """One summary under `TIME_HEADINGS`."""
    return (
        group.set,
        _method(group),
        duration(group.plan_time_sgm_ns),
        duration(group.plan_time_p99_ns),
        percent(group.share_mean),
        percent(group.share_p99),
    )


def horizon_cells(group: GroupSummary) -> tuple[str, ...]:
    """One summary of horizons under `HORIZON_HEADINGS`."""
    share = "-" if group.offline_share is None else f"{group.offline_share:.3f}"
    return group.set, _method(group), share, percent(group.hit_rate)


def profile_cells(rows: Sequence[BenchRow]) -> list[tuple[str, ...]]:
    """Performance profiles under `PROFILE_HEADINGS`: share of a method's runs within a factor of the best."""
    return [
        (method, *(f"{share:.1%}" for share in performance_profile(found, FACTORS)))
        for method, found in ratios(rows).items()
    ]


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 2) -> str:
    """A table of markdown whose first columns are aligned to the left."""
    rule = ["---" if number < left else "---:" for number in range(len(headings))]
    lines = [headings, rule, *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def troubles(rows: Sequence[BenchRow], violated: Sequence[BenchRow]) -> list[str]:
    """What has to be shouted: bounds that were beaten, solvers that broke."""
    told = [
        f"BOUND VIOLATED: {row.method} ({row.limit}, seed {row.seed}) on {row.instance}: "
        f"{row.makespan_ns} ns is below the bound of {row.lower_bound_ns} ns by {row.lower_bound_by}; "
        "either the bound or the evaluation is wrong"
        for row in violated
    ]
    broken: dict[tuple[str, str, str], list[BenchRow]] = {}
    for row in rows:
        if row.status is RowStatus.ERROR:
            broken.setdefault((row.method, row.limit, row.error), []).append(row)
    for (method, limit, error), mine in broken.items():
        more = f" and {len(mine) - 1} more runs" if len(mine) > 1 else ""
        short = (
            error if len(error) <= LONGEST_ERROR else f"{error[:LONGEST_ERROR]} ... (all of it in runs.csv)"
        )
        told.append(f"BROKEN: {method} ({limit}, seed {mine[0].seed}) on {mine[0].instance}{more}: {short}")
    return told


def percent(value: float | None) -> str:
    """A ratio in percent, with fewer decimals where it is large."""
    return "-" if value is None else f"{value:.3%}" if abs(value) < 0.1 else f"{value:.1%}"


def duration(value_ns: float | None) -> str:
    """A time in a fitting unit."""
    return "-" if value_ns is None else format_ns(round(value_ns))


def _optimal(group: GroupSummary) -> str:
    lacking = group.without_plan + group.errors
    text = f"{group.optimal}/{group.runs - lacking}"
    return f"{text} ({lacking} without)" if lacking else text


def _method(group: GroupSummary) -> str:
    return group.method if group.kind is Kind.PLANNED else f"{group.method} *"
