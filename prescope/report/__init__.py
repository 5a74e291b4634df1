"""Schedules and results for people: terminal Gantt, Perfetto files, pictures and tables."""

from prescope.report.comparison import comparison_heading, comparison_markdown, comparison_table
from prescope.report.gantt import gantt, window_ns
from prescope.report.origin import MarkedTask, Origin, mark, shares
from prescope.report.perfetto import TraceFile, read_trace, trace_document, write_trace
from prescope.report.tables import instance_table, library_table, pairs_table, plain_table

__all__ = [
    "MarkedTask",
    "Origin",
    "TraceFile",
    "comparison_heading",
    "comparison_markdown",
    "comparison_table",
    "gantt",
    "instance_table",
    "library_table",
    "mark",
    "pairs_table",
    "plain_table",
    "read_trace",
    "shares",
    "trace_document",
    "window_ns",
    "write_trace",
]
