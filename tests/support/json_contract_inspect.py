"""The shapes of ``prescope inspect`` in docs/json.md."""

from typing import Literal

from json_strict import Strict

ScheduleName = Literal["planned", "simulated", "executed", "measured"]


class Busy(Strict):
    link: float
    gpu: float
    cpu: float


class PartLine(Strict):
    name: str
    ns: int


class CounterLine(Strict):
    name: str
    unit: Literal["slots", "bytes", "copies"]
    most: int


class LayerLine(Strict):
    layer: int
    start_ns: int
    gate_ns: int
    end_ns: int
    dense_ns: int
    gpu_ns: int
    cpu_ns: int
    wait_copy_ns: int
    wait_host_ns: int
    copied_bytes: int | None
    resident: int
    prefetched: int
    late_prefetch: int
    on_demand: int
    cpu: int
    unused_copy: int


class TaskLine(Strict):
    kind: Literal["dense", "copy", "compute", "predict"]
    lane: Literal["link", "gpu", "cpu"]
    layer: int
    expert: int | None
    slot: int | None
    start_ns: int
    end_ns: int
    origin: Literal[
        "dense", "resident", "prefetched", "late prefetch", "on demand", "cpu", "prediction", "unused copy"
    ]
    critical: bool


class ScheduleShape(Strict):
    name: ScheduleName
    makespan_ns: int
    busy: Busy
    spent: list[PartLine]
    counters: list[CounterLine]
    layers: list[LayerLine]
    tasks: list[TaskLine]


class WaterfallShape(Strict):
    parts: list[PartLine]
    lower_bound_ns: int
    planned_ns: int
    makespan_ns: int


class DemandLine(Strict):
    layer: int
    activated: int
    expected_activated: float
    recall: float | None
    tokens_error: float | None
    brier: float


class StepLine(Strict):
    index: int
    name: str
    phase: Literal["", "prefill", "decode"]
    tokens: int | None
    times_ns: dict[str, int]
    copies: int


class StepShape(StepLine):
    notes: dict[str, str]
    schedules: list[ScheduleShape]
    waterfall: WaterfallShape | None
    demand: list[DemandLine]


class TableShape(Strict):
    title: str
    columns: list[str]
    rows: list[list[str | int | float | None]]


class MapShape(Strict):
    name: str
    about: str
    values: list[list[float]]


class Inspect(Strict):
    kind: Literal[
        "instance",
        "plan",
        "program",
        "trace",
        "recording",
        "routing",
        "horizon",
        "horizon plan",
        "bench",
        "prediction",
    ]
    file: str
    title: str
    facts: dict[str, str | int | float | bool | None]
    provenance: dict[str, str]
    steps: list[StepLine]
    step: StepShape | None
    tables: list[TableShape]
    maps: list[MapShape]
