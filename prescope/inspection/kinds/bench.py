"""Results of ``prescope bench`` as a view: tables."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from prescope.inspection.view import Cell, View, ViewKind, ViewTable

_COLUMNS = {
    "set": "set",
    "method": "method",
    "kind": "kind",
    "runs": "runs",
    "optimal": "optimal",
    "without_plan": "without_plan",
    "gap_to_bound_mean": "gap_mean_share",
    "gap_to_bound_max": "gap_max_share",
    "gap_to_best_mean": "to_best_mean_share",
    "plan_time_sgm_ns": "plan_time_ns",
    "plan_time_p99_ns": "plan_time_p99_ns",
    "share_mean": "of_the_step_share",
}


def bench_view(path: Path) -> View:
    """View of a sweep's folder or its ``runs.csv``; raises ``ValueError`` like `prescope.bench.read_rows`."""
    from prescope.bench import read_rows, summarise
    from prescope.bench.report_files import origins
    from prescope.bench.summary import violations

    folder = path if path.is_dir() else path.parent
    rows = read_rows(folder)
    if not rows:
        raise ValueError(f"{path}: expected rows of a benchmark, got none; run `prescope bench -o {folder}`")
    return _view(
        path,
        [asdict(group) for group in summarise(rows)],
        runs=len(rows),
        violations=len(violations(rows)),
        origins=origins(rows),
    )


def bench_document_view(path: Path, document: dict[str, Any]) -> View:
    """View of the answer of ``prescope bench --json`` or ``prescope bench report --json``."""
    return _view(
        path,
        document["summary"],
        runs=document["runs"],
        violations=len(document["violations"]),
        origins=document["origins"],
    )


def _view(
    path: Path, groups: list[dict[str, Any]], *, runs: int, violations: int, origins: list[str]
) -> View:
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        tuple(_cell(group[name]) for name in _COLUMNS) for group in groups
    )
    return View(
        kind=ViewKind.BENCH,
        path=str(path),
        title=f"benchmark {path.name}",
        facts={
            "runs": runs,
            "sets": len({group["set"] for group in groups}),
            "methods": len({group["method"] for group in groups}),
            "bounds_violated": violations,
        },
        provenance={f"origin {number}": text for number, text in enumerate(origins, start=1)},
        tables=(ViewTable(title="methods", columns=tuple(_COLUMNS.values()), rows=rows),),
    )


def _cell(value: Any) -> Cell:
    return value if value is None or isinstance(value, int | float) else str(value)
