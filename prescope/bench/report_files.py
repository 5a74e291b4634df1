"""The report of a sweep as files: markdown, CSV and plots."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING

from prescope.bench.row import BenchRow, Kind
from prescope.bench.statistics import SHIFT_NS
from prescope.bench.summary import GroupSummary, summarise, violations
from prescope.bench.tables import (
    GAP_HEADINGS,
    HORIZON_HEADINGS,
    PROFILE_HEADINGS,
    TIME_HEADINGS,
    duration,
    gap_cells,
    horizon_cells,
    markdown_table,
    profile_cells,
    time_cells,
    troubles,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GAP_NOTE = (
    "Gaps: makespan / reference - 1, mean and largest, to the best bound proved for the instance, and to the "
    "library's best plan (negative: improved). Optimal: plans that meet the bound, of all plans; proved: "
    "those whose own run knew a bound that they meet. Steps are planned, not executed."
)
TIME_NOTE = (
    f"Plan time: shifted geometric mean (shift {SHIFT_NS // 10**6} ms) and 99th percentile of the wall time "
    "of the method, one thread, compiled code warm; its share of the step it plans: mean and 99th percentile."
)
PROFILE_NOTE = "Performance profile: share of a method's runs within a factor of the shortest makespan here."
HORIZON_NOTE = (
    "Horizons: time saved against residents that never move, by what the best plan here of a rule that knows "
    "all demand saves (Belady's or a flow's, same planner; sum over sum); and uses whose expert was resident "
    "when its step began."
)
REALISED_NOTE = "\\* realised: planned from predicted demand, scored under the true demand."


def markdown_report(rows: Sequence[BenchRow]) -> str:
    """The whole report as markdown."""
    groups = summarise(rows)
    parts = [markdown_table(GAP_HEADINGS, list(map(gap_cells, groups))), "", GAP_NOTE]
    if any(group.kind is not Kind.PLANNED for group in groups):
        parts += ["", REALISED_NOTE]
    rows_of_steps = [group for group in groups if group.hit_rate is not None]
    if rows_of_steps:
        cells = list(map(horizon_cells, rows_of_steps))
        parts += ["", markdown_table(HORIZON_HEADINGS, cells), "", HORIZON_NOTE]
    parts += ["", markdown_table(TIME_HEADINGS, list(map(time_cells, groups))), "", TIME_NOTE]
    parts += ["", markdown_table(PROFILE_HEADINGS, profile_cells(rows), left=1), "", PROFILE_NOTE]
    anytime = [group for group in groups if group.primal_integral_sgm_ns is not None]
    if anytime:
        table = [(group.set, group.method, duration(group.primal_integral_sgm_ns)) for group in anytime]
        parts += [
            "",
            markdown_table(("set", "method", "primal integral"), table),
            "",
            "Primal integral: area under the gap to the best plan until the longest plan time of any method "
            "on the instance, shifted geometric mean.",
        ]
    shouted = troubles(rows, violations(rows))
    if shouted:
        parts += ["", *(f"- **{text}**" for text in shouted)]
    parts += ["", *(f"Ran with {text}." for text in origins(rows))]
    return "\n".join(parts) + "\n"


def origins(rows: Sequence[BenchRow]) -> list[str]:
    """The versions and machines that the rows come from, each once."""
    found = (
        f"prescope {row.prescope}, Python {row.python}, OR-Tools {row.ortools}, numba {row.numba}, "
        f"NumPy {row.numpy} on {row.machine}"
        for row in rows
    )
    return list(dict.fromkeys(found))


def summary_csv(groups: Sequence[GroupSummary]) -> str:
    """Summaries as CSV, one line per set and method."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, [field.name for field in fields(GroupSummary)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(group) for group in groups)
    return stream.getvalue()


def write_report(rows: Sequence[BenchRow], folder: Path, *, plots: bool = True) -> list[Path]:
    """Write ``report.md``, ``summary.csv`` and the plots, and return their paths.

    Raises
    ------
    ValueError
        When plots are wanted and matplotlib is missing.
    """
    written = [folder / "report.md", folder / "summary.csv"]
    written[0].write_text(markdown_report(rows), encoding="utf-8")
    written[1].write_text(summary_csv(summarise(rows)), encoding="utf-8")
    if plots:
        written += _write_plots(rows, folder)
    return written


def _write_plots(rows: Sequence[BenchRow], folder: Path) -> list[Path]:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ValueError(
            "expected matplotlib for plots, got none; install it with: pip install 'prescope[plot]', "
            "or leave plots out with --no-plots"
        ) from None
    from prescope.bench.plots import draw_gaps, draw_plan_times, draw_primal_gaps, draw_profile

    drawings: dict[str, Callable[..., None]] = {
        "gaps": draw_gaps,
        "profile": draw_profile,
        "plan-times": draw_plan_times,
    }
    if any(row.incumbents for row in rows):
        drawings["primal-gaps"] = draw_primal_gaps
    written = []
    for name, draw in drawings.items():
        figure = Figure(figsize=(7, 4.5), layout="constrained")
        axes: Axes = figure.subplots()
        draw(rows, ax=axes)
        written.append(folder / f"{name}.png")
        figure.savefig(written[-1], dpi=120)
    return written
