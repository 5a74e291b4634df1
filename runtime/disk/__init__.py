"""Experts that stay on the disk: a checkpoint's index, and reads of single experts past the page cache."""

from __future__ import annotations

from prescope.runtime.disk.calls import SystemCalls
from prescope.runtime.disk.checkpoint import Checkpoint
from prescope.runtime.disk.errors import CheckpointError, DiskReadError
from prescope.runtime.disk.header import TensorEntry
from prescope.runtime.disk.memory import huge_page_bytes
from prescope.runtime.disk.page_cache import cached_bytes
from prescope.runtime.disk.store import DiskStore

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "DiskReadError",
    "DiskStore",
    "SystemCalls",
    "TensorEntry",
    "cached_bytes",
    "huge_page_bytes",
]
