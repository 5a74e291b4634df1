"""A disk as the host and memory as the device: nothing is emulated, all times are measured."""

from __future__ import annotations

from prescope.runtime.backends.disk.backend import DiskBackend
from prescope.runtime.backends.disk.options import DiskOptions

__all__ = ["DiskBackend", "DiskOptions"]
