"""Memory: how much there is for experts, and in what pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from prescope.doctor.finding import Finding, State
from prescope.formulation.units import format_bytes

_AREA = "memory"
_LITTLE_BYTES = 2 << 30
_HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_MEMORY = Path("/proc/meminfo")
_GROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
_GROUP_USED = Path("/sys/fs/cgroup/memory.current")


def examine_memory() -> Iterator[Finding]:
    """Memory that is free, the limit of the process's group, huge pages."""
    yield judge_free_memory(available_bytes(), group_left_bytes())
    yield judge_huge_pages(_read(_HUGE_PAGES))


def available_bytes() -> int | None:
    """What Linux says could be had without swapping; ``None`` where it does not say."""
    for line in (_read(_MEMORY) or "").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return None


def group_left_bytes() -> int | None:
    """What the process's control group may still take; ``None`` without a limit."""
    limit, used = (_read(_GROUP_LIMIT) or "max").strip(), (_read(_GROUP_USED) or "0").strip()
    return None if limit == "max" else max(0, int(limit) - int(used))


def judge_free_memory(free_bytes: int | None, group_bytes: int | None) -> Finding:
    """Judge the memory that experts may take.

    Parameters
    ----------
    free_bytes
        Of the machine; ``None`` where it is not known.
    group_bytes
        Of the control group; ``None`` where there is no limit.
    """
    if free_bytes is None:
        return Finding(area=_AREA, name="free", state=State.NOTE, found="not known on this system")
    least = free_bytes if group_bytes is None else min(free_bytes, group_bytes)
    found = format_bytes(free_bytes)
    if group_bytes is not None:
        found += f", {format_bytes(group_bytes)} left for this control group"
    if least >= _LITTLE_BYTES:
        return Finding(area=_AREA, name="free", state=State.OK, found=found)
    return Finding(
        area=_AREA,
        name="free",
        state=State.DEGRADED,
        found=found,
        effect="little room for experts and for the model's dense part",
        remedy="end other programs, raise the group's limit, or serve from disk with a small --expert-memory",
    )


def judge_huge_pages(setting: str | None) -> Finding:
    """Judge the content of Linux's switch for transparent huge pages; ``None`` where there is none."""
    if setting is None:
        return Finding(area=_AREA, name="huge pages", state=State.NOTE, found="not known on this system")
    chosen = setting.partition("[")[2].partition("]")[0]
    if chosen in ("always", "madvise"):
        return Finding(area=_AREA, name="huge pages", state=State.OK, found=chosen)
    return Finding(
        area=_AREA,
        name="huge pages",
        state=State.DEGRADED,
        found=chosen or setting.strip(),
        effect="a read of some megabytes becomes many requests to the disk",
        remedy=f"echo madvise | sudo tee {_HUGE_PAGES}",
    )


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
