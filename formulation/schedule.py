"""A plan with times: every task with its start and end."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Lane(StrEnum):
    """What a task occupies; one task at a time on each."""

    GPU = "gpu"
    CPU = "cpu"
    LINK = "link"


class TaskKind(StrEnum):
    """What a task does."""

    DENSE = "dense"
    COPY = "copy"
    COMPUTE = "compute"
    PREDICT = "predict"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One operation with its times.

    Parameters
    ----------
    kind, lane
        What it does and what it occupies.
    layer
        MoE layer it belongs to.
    expert
        Expert it copies or computes; ``None`` for dense work and predictions.
    slot
        Device buffer it fills or reads; ``None`` for residents, dense and host work.
    start_ns, end_ns
        Times since the start of the batch.
    """

    kind: TaskKind
    lane: Lane
    layer: int
    expert: int | None
    slot: int | None
    start_ns: int
    end_ns: int

    @property
    def duration_ns(self) -> int:
        """Length in nanoseconds."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """All tasks of one batch.

    Parameters
    ----------
    tasks
        Sorted by start, then end, lane and layer.
    layer_end_ns
        When each layer is done.
    makespan_ns
        When the last layer is done.
    """

    tasks: tuple[Task, ...]
    layer_end_ns: tuple[int, ...]
    makespan_ns: int

    def lane(self, lane: Lane) -> tuple[Task, ...]:
        """Tasks of one lane in order of time."""
        return tuple(task for task in self.tasks if task.lane == lane)

    def busy_ns(self, lane: Lane) -> int:
        """Total duration of one lane's tasks."""
        return sum(task.duration_ns for task in self.lane(lane))
