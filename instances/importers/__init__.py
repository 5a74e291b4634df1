"""Routing logs of other programs: read into traces, and written from them."""

from prescope.instances.importers.csv_export import write_csv_log
from prescope.instances.importers.csv_log import read_csv_log
from prescope.instances.importers.jsonl_export import write_jsonl_log
from prescope.instances.importers.jsonl_log import read_jsonl_log

__all__ = ["read_csv_log", "read_jsonl_log", "write_csv_log", "write_jsonl_log"]
