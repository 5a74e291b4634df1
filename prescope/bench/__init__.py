"""Benchmarking: sweeps of methods over saved instances, their checks, statistics and plots."""

from prescope.bench.best import Improvement, update_library
from prescope.bench.cases import Case, find_cases
from prescope.bench.check import CheckOutcome, RunFault, check_runs
from prescope.bench.engines import Engine, local_engine
from prescope.bench.planning import Replan
from prescope.bench.report_files import markdown_report, write_report
from prescope.bench.row import BenchRow, Kind, RowStatus, RunKey
from prescope.bench.row_file import read_rows
from prescope.bench.settings import BenchSettings, Hints
from prescope.bench.summary import GroupSummary, summarise, violations
from prescope.bench.sweep import BenchOutcome, run_bench

__all__ = [
    "BenchOutcome",
    "BenchRow",
    "BenchSettings",
    "Case",
    "CheckOutcome",
    "Engine",
    "GroupSummary",
    "Hints",
    "Improvement",
    "Kind",
    "Replan",
    "RowStatus",
    "RunFault",
    "RunKey",
    "check_runs",
    "find_cases",
    "local_engine",
    "markdown_report",
    "read_rows",
    "run_bench",
    "summarise",
    "update_library",
    "violations",
    "write_report",
]
