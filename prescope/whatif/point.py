"""One machine to imagine: memory, link, speed, batch and predictor."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from prescope.formulation import CostModel, LinearTime, TableTime, Tier, TimeCurve
from prescope.formulation.checks import require_finite, require_int


class Lever(StrEnum):
    """What a sweep changes."""

    MEMORY = "memory"
    LINK = "link"
    SPEED = "speed"
    BATCH = "batch"
    RECALL = "recall"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Where everything costs what it costs now.

    Parameters
    ----------
    name
        A preset, or the file of measured costs.
    costs
        Durations.
    tier
        ``RAM``: experts in host memory, copied or computed in place. ``DISK``: experts on disk, read into
        memory and computed there.
    host_computes
        Whether the host runs experts in place.
    """

    name: str
    costs: CostModel
    tier: Tier
    host_computes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What is imagined.

    Parameters
    ----------
    memory_bytes
        Memory for experts: on the device, or for experts on disk in RAM.
    link_bytes_per_s
        Of the link, or of the disk.
    speed
        Of whoever computes beside the device: the host's experts, or for experts on disk everything; as a
        multiple of the machine's.
    batch
        Tokens per step.
    recall
        Share of the needed experts that a predictor names one layer ahead; 1 knows everything beforehand,
        ``None`` predicts nothing.
    """

    memory_bytes: int
    link_bytes_per_s: int
    speed: float = 1.0
    batch: int = 1
    recall: float | None = None

    def __post_init__(self) -> None:
        require_int("memory_bytes", self.memory_bytes, 1)
        require_int("link_bytes_per_s", self.link_bytes_per_s, 1)
        require_finite("speed", self.speed, 0.0)
        if self.speed == 0:
            raise ValueError("expected speed > 0, got 0")
        require_int("batch", self.batch, 1)
        if self.recall is not None:
            require_finite("recall", self.recall, 0.0)
            if not 0 < self.recall <= 1:
                raise ValueError(f"expected recall in (0, 1] or none, got {self.recall}")

    def value(self, lever: Lever) -> float | None:
        """What a lever is at."""
        found: float | None = getattr(self, _FIELDS[lever])
        return found

    def moved(self, lever: Lever, value: float | None) -> Point:
        """The point with one lever elsewhere; bytes and batches are rounded."""
        whole = lever in (Lever.MEMORY, Lever.LINK, Lever.BATCH)
        if value is None and lever is not Lever.RECALL:
            raise ValueError(f"expected a value for {lever.value}, got none")
        changed = round(value) if whole and value is not None else value
        fields: dict[str, Any] = {_FIELDS[lever]: changed}
        return replace(self, **fields)


_FIELDS = {
    Lever.MEMORY: "memory_bytes",
    Lever.LINK: "link_bytes_per_s",
    Lever.SPEED: "speed",
    Lever.BATCH: "batch",
    Lever.RECALL: "recall",
}


def costs_at(machine: Machine, point: Point, *, overhead_ns: int = 0) -> CostModel:
    """The machine's costs with the point's link and speed.

    Parameters
    ----------
    machine, point
        What there is and what is imagined.
    overhead_ns
        Added to every layer before its gate: what deciding and calling takes, which cost models leave out.
    """
    costs = machine.costs
    link = replace(costs.link, bytes_per_s=point.link_bytes_per_s)
    dense = costs.dense
    if machine.tier is Tier.DISK:
        # One processor does all the work.
        gpu = tuple(_scaled(curve, point.speed, 0) for curve in costs.gpu)
        dense = tuple(_scaled(curve, point.speed, overhead_ns) for curve in dense)
        return replace(costs, link=link, gpu=gpu, dense=dense)
    cpu = tuple(_scaled(curve, point.speed, 0) for curve in costs.cpu)
    if overhead_ns:
        dense = tuple(_scaled(curve, 1.0, overhead_ns) for curve in dense)
    return replace(costs, link=link, cpu=cpu, dense=dense)


def _scaled(curve: TimeCurve, speed: float, more_ns: int) -> TimeCurve:
    if isinstance(curve, LinearTime):
        return LinearTime(
            fixed_ns=round(curve.fixed_ns / speed) + more_ns, per_token_ns=curve.per_token_ns / speed
        )
    times = tuple(round(time_ns / speed) + more_ns for time_ns in curve.times_ns)
    return TableTime(tokens=curve.tokens, times_ns=times)
