"""The accelerator, and the memory it copies from."""

from __future__ import annotations

import resource
from collections.abc import Iterator

from prescope.doctor.finding import Finding, State
from prescope.formulation.units import format_bytes

_AREA = "device"
_PINNED_TRIAL_BYTES = 64 << 20


def examine_device() -> Iterator[Finding]:
    """Devices that torch sees, and how much memory may be pinned for their copies."""
    import torch

    if not torch.cuda.is_available():
        built = torch.version.cuda or getattr(torch.version, "hip", None)
        found = "none" if built is None else f"none, though torch is built for {built}"
        yield Finding(
            area=_AREA,
            name="accelerator",
            state=State.NOTE,
            found=found,
            effect="steps run on this processor: from disk in real time, else in slow motion or simulated",
        )
    for number in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        described = torch.cuda.get_device_properties(number)
        free_bytes, total_bytes = torch.cuda.mem_get_info(number)
        yield Finding(
            area=_AREA,
            name=f"accelerator {number}",
            state=State.NOTE,
            found=f"{described.name}, {format_bytes(free_bytes)} of {format_bytes(total_bytes)} free",
            effect="not used: the backends of this version run on the processor",
        )
    yield judge_lock_limit(resource.getrlimit(resource.RLIMIT_MEMLOCK)[0])
    if torch.cuda.is_available():
        yield _pinned()


def judge_lock_limit(limit_bytes: int) -> Finding:
    """Judge how much memory a process may lock; ``resource.RLIM_INFINITY`` is no limit."""
    limit = "no limit" if limit_bytes == resource.RLIM_INFINITY else format_bytes(limit_bytes)
    return Finding(
        area=_AREA,
        name="locked memory",
        state=State.OK if limit_bytes == resource.RLIM_INFINITY else State.NOTE,
        found=limit,
        effect=""
        if limit_bytes == resource.RLIM_INFINITY
        else "of concern only where host memory is pinned for a device",
        remedy="" if limit_bytes == resource.RLIM_INFINITY else "ulimit -l unlimited",
    )


def _pinned() -> Finding:
    import torch

    try:
        torch.empty(_PINNED_TRIAL_BYTES, dtype=torch.uint8, pin_memory=True)
    except RuntimeError as error:
        return Finding(
            area=_AREA,
            name="pinned memory",
            state=State.DEGRADED,
            found=f"refused: {str(error).splitlines()[0]}",
            effect="copies from memory that is not pinned are slower and hold up the device",
            remedy="raise the limit of locked memory (ulimit -l unlimited)",
        )
    return Finding(
        area=_AREA, name="pinned memory", state=State.OK, found=f"{format_bytes(_PINNED_TRIAL_BYTES)} pinned"
    )
