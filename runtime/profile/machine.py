"""This machine in general words."""

from __future__ import annotations

import os
import platform

from prescope.instances import MachineDescription


def usable_cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def engine_threads() -> int:
    """Threads of a computation while another thread reads: all cores but one, at least one."""
    return max(1, usable_cores() - 1)


def this_machine() -> MachineDescription:
    """Describe this machine; no names of hosts, users or folders."""
    from importlib.metadata import PackageNotFoundError, version

    import torch

    try:
        transformers: str | None = version("transformers")
    except PackageNotFoundError:
        transformers = None
    return MachineDescription(
        system=platform.system(),
        architecture=platform.machine(),
        cores=usable_cores(),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        python=platform.python_version(),
        torch=str(torch.__version__),
        transformers=transformers,
    )
