"""The emulated accelerator: worker threads in slow motion, with real copies and computations."""

from __future__ import annotations

from prescope.runtime.backends.cpu.backend import CpuBackend
from prescope.runtime.backends.cpu.calibration import Calibration, Probe, calibrate, copy_probe
from prescope.runtime.backends.cpu.options import CpuOptions

__all__ = ["Calibration", "CpuBackend", "CpuOptions", "Probe", "calibrate", "copy_probe"]
