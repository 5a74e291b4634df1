"""Plots of a sweep; each draws on axes it is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from prescope.bench.row import BenchRow, relative_gap
from prescope.bench.statistics import performance_profile
from prescope.bench.summary import incumbents, label, ratios, references

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_gaps(rows: Sequence[BenchRow], *, ax: Axes) -> None:
    """Distribution of the gaps to the bound, one box per method, in percent on a scale linear near zero."""
    known = references(rows)
    gaps: dict[str, list[float]] = {}
    for row in rows:
        gap = relative_gap(row.makespan_ns, known[row.instance].lower_bound_ns)
        if gap is not None:
            gaps.setdefault(label(row), []).append(100 * gap)
    if gaps:
        ax.boxplot(list(gaps.values()), tick_labels=list(gaps), whis=(0, 100))
    ax.set_yscale("symlog", linthresh=0.01)
    ax.set_ylim(bottom=min([0.0, *map(min, gaps.values())]))
    ax.set_ylabel("gap to the lower bound, %")
    ax.tick_params(axis="x", rotation=30)


def draw_profile(rows: Sequence[BenchRow], *, ax: Axes, largest: float = 1.5) -> None:
    """Performance profile: share of the runs within a factor of the shortest makespan here."""
    above = np.concatenate([[0.0], np.geomspace(1e-4, largest - 1, 400)])
    for method, found in ratios(rows).items():
        ax.step(100 * above, performance_profile(found, (1 + above).tolist()), where="post", label=method)
    ax.set_xscale("symlog", linthresh=0.1)
    ax.set_xlim(0, 100 * (largest - 1))
    ax.set_ylim(0, 1.02)
    ax.set_xlabel("above the shortest makespan, %")
    ax.set_ylabel("share of the runs")
    ax.legend(fontsize="small")


def draw_plan_times(rows: Sequence[BenchRow], *, ax: Axes) -> None:
    """Plan time over the makespan it plans, with the line of half a percent."""
    from matplotlib.ticker import LogFormatter

    points: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if row.makespan_ns and row.plan_time_ns:
            points.setdefault(label(row), []).append((row.makespan_ns / 1e6, row.plan_time_ns / 1e6))
    for method, found in points.items():
        steps, times = zip(*found, strict=True)
        ax.scatter(steps, times, s=8, label=method)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_formatter(LogFormatter())
    if points:
        edges = np.array(ax.get_xlim())
        ax.plot(edges, 0.005 * edges, color="black", linewidth=0.8, label="0.5 % of the step")
    ax.set_xlabel("makespan, ms")
    ax.set_ylabel("plan time, ms")
    # Beside the axes: inside it would cover points.
    ax.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))


def draw_primal_gaps(rows: Sequence[BenchRow], *, ax: Axes) -> None:
    """Mean gap to the best plan over planning time, of methods that find better and better plans."""
    known = references(rows)
    anytime = {label(row) for row in rows if row.incumbents}
    longest = max((known[row.instance].longest_ns for row in rows if label(row) in anytime), default=0)
    times = np.geomspace(1e5, max(longest, 2e5), 300)
    for method in sorted(anytime):
        curves = []
        for row in (row for row in rows if label(row) == method):
            reference = known[row.instance]
            best = min(
                ns for ns in (reference.best_known_ns, reference.best_here_ns, 2**62) if ns is not None
            )
            curves.append(_primal_gap(incumbents(row), best, times))
        ax.plot(times / 1e6, 100 * np.mean(curves, axis=0), label=method)
    ax.set_xscale("log")
    ax.set_yscale("symlog", linthresh=0.01)
    ax.set_ylim(0, 100)
    ax.set_xlabel("planning time, ms")
    ax.set_ylabel("mean gap to the best plan, %")
    if anytime:
        ax.legend(fontsize="small")


def _primal_gap(
    found: Sequence[tuple[int, int]], best_ns: int, times: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    gaps = np.ones(len(times))
    for time_ns, makespan_ns in found:
        gaps[times >= time_ns] = max(makespan_ns - best_ns, 0) / max(makespan_ns, 1)
    return gaps
