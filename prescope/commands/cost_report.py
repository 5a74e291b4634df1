"""A cost file for people and for ``--json`` (docs/profile.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from prescope.formulation.units import format_bytes, format_ns

if TYPE_CHECKING:
    from rich.table import Table

    from prescope.formulation import TimeCurve
    from prescope.instances import CostFile, MeasuredPoint, MeasuredSeries
    from prescope.runtime.profile import FitError


def cost_document(file: CostFile) -> dict[str, Any]:
    """Everything measured, with the errors of lines and tables."""
    costs, provenance = file.costs, file.provenance
    size_bytes = costs.expert_bytes[0]
    return {
        "source": costs.source,
        "tier": file.tier.value,
        "fingerprint": asdict(file.fingerprint),
        "provenance": asdict(provenance),
        "link": {
            "bytes_per_s": costs.link.bytes_per_s,
            "latency_ns": costs.link.latency_ns,
            "expert_bytes": size_bytes,
            "expert_ns": costs.copy_ns(0),
            "depth": provenance.depth,
        },
        "curves": [
            {"name": name, "taken": _kind(curve), **_errors(series)} for name, series, curve in _curves(file)
        ],
        "reading_slowdown": _slowdown(file),
        "series": [
            {
                "kind": series.kind,
                "label": series.label,
                "workers": series.workers,
                "layer": series.layer,
                "points": [asdict(point) for point in series.points],
                **_errors(series),
            }
            for series in file.series
        ],
    }


def cost_pairs(file: CostFile) -> list[tuple[str, str]]:
    """What was measured, in a few lines."""
    costs, provenance = file.costs, file.provenance
    size_bytes, copy_ns = costs.expert_bytes[0], costs.copy_ns(0)
    how = "direct" if provenance.direct else "through the page cache"
    rows = [
        ("model", file.fingerprint.describe()),
        ("machine", provenance.machine.describe()),
        ("threads", f"{provenance.threads} for computations"),
        (
            "disk",
            f"{format_bytes(size_bytes)} in {format_ns(copy_ns)} ({size_bytes / copy_ns:.2f} GB/s) with "
            f"{provenance.depth} reads in flight, {how}",
        ),
        ("while reading", f"experts take {_slowdown(file):.2f} times as long"),
    ]
    if provenance.notes:
        rows.append(("note", provenance.notes))
    return rows


def cost_tables(file: CostFile) -> Iterator[Table]:
    """The curves the costs consist of, then all measurements."""
    from prescope.report.tables import plain_table

    curves = plain_table("cost curve", "taken", "line errs (mean/max)", "table errs (mean/max)", left=2)
    for name, series, curve in _curves(file):
        errors = _errors(series)
        curves.add_row(name, _kind(curve), _pair(errors["line_error"]), _pair(errors["table_error"]))
    curves.caption = "a table's error is that of its points, each left out in turn; the full table is better"
    yield curves
    measured = plain_table("measured", "of", "workers", "size: median time (spread)", left=4)
    for series in file.series:
        measured.add_row(series.kind, series.label, str(series.workers), _points(series))
    yield measured


def _curves(file: CostFile) -> list[tuple[str, MeasuredSeries, TimeCurve]]:
    """What each cost curve is called, what it was made from, and what became of it."""
    from prescope.runtime.profile import dense_series, find_series

    costs, threads = file.costs, file.provenance.threads
    experts = find_series(file.series, "expert", workers=threads)
    found = [("expert", experts, costs.gpu[0])]
    for series in file.series:
        if series.kind == "dense-decode" and series.workers == threads and series.layer is not None:
            joined = dense_series(file.series, threads=threads, layer=series.layer)
            found.append((f"dense, {series.label}", joined, costs.dense[series.layer]))
    return found


def _slowdown(file: CostFile) -> float:
    from prescope.runtime.profile import reading_slowdown

    return reading_slowdown(file.series, threads=file.provenance.threads)


def _errors(series: MeasuredSeries) -> dict[str, Any]:
    from prescope.runtime.profile import fit_line, line_error, table_error

    line, table = fit_line(series.xs, series.medians_ns), table_error(series)
    return {
        "line": {"fixed_ns": line.fixed_ns, "per_unit_ns": line.per_token_ns},
        "line_error": _error(line_error(series)),
        "table_error": None if table is None else _error(table),
    }


def _error(error: FitError) -> dict[str, float]:
    return {"mean": error.mean, "max": error.largest}


def _kind(curve: TimeCurve) -> str:
    from prescope.formulation import TableTime

    return "table" if isinstance(curve, TableTime) else "line"


def _pair(error: dict[str, float] | None) -> str:
    return "-" if error is None else f"{error['mean']:.1%} / {error['max']:.1%}"


def _points(series: MeasuredSeries) -> str:
    return "  ".join(_point(series, point) for point in series.points)


def _point(series: MeasuredSeries, point: MeasuredPoint) -> str:
    size = format_bytes(point.x) if series.kind in ("copy", "read") else str(point.x)
    return f"{size}: {format_ns(point.median_ns)} ({point.spread:.0%})"
