"""Small benchmark results, written by hand."""

from pathlib import Path

from prescope.bench import BenchRow, Kind, RowStatus
from prescope.bench.row_file import rewrite_rows


def rows(method: str, *makespans: int | None) -> list[BenchRow]:
    return [
        BenchRow(
            set="small",
            instance=f"instance-{number}",
            instance_sha256=f"{number:064d}",
            layers=1,
            experts=1,
            tokens=1,
            method=method,
            seed=0,
            limit="default",
            kind=Kind.PLANNED,
            status=RowStatus.FEASIBLE if made else RowStatus.NO_PLAN,
            makespan_ns=made,
            plan_time_ns=5,
            **dict.fromkeys(("prescope", "python", "ortools", "numba", "numpy", "machine"), "1"),
        )
        for number, made in enumerate(makespans)
    ]


def sweep(folder: Path, lines: list[BenchRow]) -> Path:
    folder.mkdir()
    rewrite_rows(folder, lines)
    return folder
