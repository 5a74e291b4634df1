"""Cores, threads, compiled code."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import prescope.solver
from prescope.doctor.finding import Finding, State
from prescope.runtime.profile.machine import usable_cores

_AREA = "processor"
_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def examine_processor() -> Iterator[Finding]:
    """Cores and who else uses them, threads of torch, the cache of compiled code, a compiler."""
    import torch

    cores = usable_cores()
    yield judge_cores(cores, _quota_cores())
    yield judge_load(os.getloadavg()[0] if hasattr(os, "getloadavg") else None, cores)
    yield judge_threads(torch.get_num_threads(), cores)
    yield judge_compiled_cache(*_cache_folders())
    compiler = next((name for name in ("cc", "gcc", "clang") if shutil.which(name)), None)
    yield Finding(
        area=_AREA,
        name="C compiler",
        state=State.OK if compiler else State.NOTE,
        found=compiler or "none",
        effect="" if compiler else "nothing of prescope needs one: numba brings its own",
    )


def judge_cores(cores: int, quota: float | None) -> Finding:
    """Judge the cores of this process.

    Parameters
    ----------
    cores
        Cores it may run on.
    quota
        Cores' worth of time that its control group gets; ``None`` without a limit.
    """
    found = f"{cores}" if quota is None else f"{cores}, time of {quota:g}"
    if quota is not None and quota < cores:
        return Finding(
            area=_AREA,
            name="cores",
            state=State.DEGRADED,
            found=found,
            effect="threads are stopped when the group's time is used up, in the middle of a step",
            remedy=f"bind the process to {max(1, int(quota))} core(s) (taskset) or raise the group's quota",
        )
    if cores < 2:
        return Finding(
            area=_AREA,
            name="cores",
            state=State.DEGRADED,
            found=found,
            effect="copies and computations take turns on one core",
            remedy="give the process at least two cores",
        )
    return Finding(area=_AREA, name="cores", state=State.OK, found=found)


def judge_load(load: float | None, cores: int) -> Finding:
    """Judge the load of the last minute; ``None`` where the system does not say."""
    if load is None:
        return Finding(area=_AREA, name="load", state=State.NOTE, found="not known on this system")
    if load <= 0.5 * cores:
        return Finding(area=_AREA, name="load", state=State.OK, found=f"{load:.1f}")
    return Finding(
        area=_AREA,
        name="load",
        state=State.DEGRADED,
        found=f"{load:.1f} on {cores} core(s)",
        effect="measured times, those of `prescope profile` above all, are those of a busy machine",
        remedy="wait for the other programs, or end them",
    )


def judge_threads(threads: int, cores: int) -> Finding:
    """Judge the threads of torch's computations."""
    if threads <= cores:
        return Finding(area=_AREA, name="torch threads", state=State.OK, found=str(threads))
    return Finding(
        area=_AREA,
        name="torch threads",
        state=State.DEGRADED,
        found=f"{threads} on {cores} core(s)",
        effect="threads wait for each other",
        remedy=f"OMP_NUM_THREADS={cores}",
    )


def judge_compiled_cache(*folders: Path) -> Finding:
    """Judge whether compiled code can be kept in one of ``folders``, which are tried in this order."""
    kept = next((folder for folder in folders if _can_be_written(folder)), None)
    if kept is not None:
        return Finding(area=_AREA, name="compiled code", state=State.OK, found=f"kept in {kept}")
    return Finding(
        area=_AREA,
        name="compiled code",
        state=State.BROKEN,
        found=f"cannot be kept in {' or '.join(map(str, folders))}",
        effect="numba refuses to compile the planner: nothing is planned or served",
        remedy="set NUMBA_CACHE_DIR to a folder that can be written",
    )


def _can_be_written(folder: Path) -> bool:
    """Whether a folder is there, or can be made, and can be written."""
    there = next(place for place in (folder, *folder.parents) if place.exists())
    return there.is_dir() and os.access(there, os.W_OK)


def _cache_folders() -> tuple[Path, ...]:
    """Where numba keeps compiled code: where it is told to, or beside the source, or in the user's folder."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    told = (Path(chosen).absolute(),) if chosen else ()
    # Its modules are not imported: that fails where compiled code cannot be kept.
    beside = Path(next(iter(prescope.solver.__path__))) / "__pycache__"
    user = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return *told, beside, user.absolute() / "numba"


def _quota_cores() -> float | None:
    try:
        quota, _, period = _QUOTA.read_text(encoding="ascii").partition(" ")
    except OSError:
        return None
    return None if quota == "max" else int(quota) / int(period)
