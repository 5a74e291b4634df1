"""What a run's times and plans depend on besides its settings."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """Versions of what plans, and the machine it ran on.

    Parameters
    ----------
    prescope, python, ortools, numba, numpy
        Versions.
    machine
        Architecture, processor and number of cores; no host name.
    """

    prescope: str
    python: str
    ortools: str
    numba: str
    numpy: str
    machine: str


@cache
def this_machine() -> Versions:
    """Versions and machine of this process."""
    return Versions(
        prescope=version("prescope"),
        python=platform.python_version(),
        ortools=version("ortools"),
        numba=version("numba"),
        numpy=version("numpy"),
        machine=f"{platform.machine()}, {_processor()}, {os.cpu_count()} cores",
    )


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass  # not Linux
    return platform.processor() or "unknown processor"
