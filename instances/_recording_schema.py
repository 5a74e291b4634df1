"""The layout of the recording files, version 1. Changing anything here is a new version."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from prescope.instances._schema import (
    CostsRecord,
    Digest,
    Duration,
    Index,
    Name,
    NonNegative,
    Note,
    PlanRecord,
    PredictedRecord,
    Probability,
    Tokens,
)
from prescope.instances.limits import MAX_EXPERTS, MAX_LAYERS, MAX_TOTAL_NS

RECORDING_FORMAT: Literal["prescope-recording"] = "prescope-recording"

_MAX_STEPS = 100_000
# A copy may have begun in the step before.
Time = Annotated[int, Meta(ge=-MAX_TOTAL_NS, le=MAX_TOTAL_NS)]
Facts = dict[Name, Note]


class TaskRecord(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """`prescope.formulation.Task` as ``[kind, lane, layer, expert, slot, start_ns, end_ns]``."""

    kind: Literal["dense", "copy", "compute", "predict"]
    lane: Literal["gpu", "cpu", "link"]
    layer: Index
    expert: Index | None
    slot: Index | None
    start_ns: Time
    end_ns: Time


class ScheduleRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`prescope.formulation.Schedule`."""

    tasks: list[TaskRecord]
    layer_end_ns: Annotated[list[Time], Meta(min_length=1, max_length=MAX_LAYERS)]
    makespan_ns: Time


class ForecastRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`prescope.formulation.forecast.Forecast`."""

    expected_tokens: Annotated[list[NonNegative], Meta(max_length=MAX_EXPERTS)]
    probability: Annotated[list[Probability], Meta(max_length=MAX_EXPERTS)]


class StepRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`prescope.instances.RecordedStep`.

    ``costs`` is a number of the document's list. ``demand`` has ``[expert, tokens, expert, tokens, ...]`` of
    the activated experts of each layer. ``residents`` is ``null`` where they are those of the step before. A
    schedule that is ``null`` is the exact evaluator's of the plan.
    """

    index: Index
    name: Name
    phase: Literal["", "prefill", "decode"]
    tokens: Tokens
    costs: Index
    batch_tokens: Tokens
    demand: Annotated[list[list[Tokens]], Meta(min_length=1, max_length=MAX_LAYERS)]
    residents: list[list[Index]] | None
    slots: Index
    lookahead: Index
    tier: Literal["ram", "disk"]
    host_computes: bool
    link_ready_ns: Duration
    prediction_ns: list[Duration] | UnsetType = UNSET
    predicted: PredictedRecord | UnsetType = UNSET
    plan: PlanRecord
    schedules: dict[Literal["planned", "simulated", "executed", "measured"], ScheduleRecord | None]
    forecasts: list[ForecastRecord | None] | UnsetType = UNSET
    dilation: float
    began_unix_ns: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None
    notes: Facts


class RecordingDocument(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A recording; ``sha256`` is that of the same document without it."""

    format: Literal["prescope-recording"]
    version: Literal[1]
    sha256: Digest
    experts: Annotated[int, Meta(ge=1, le=MAX_EXPERTS)]
    facts: Facts
    costs: Annotated[list[CostsRecord], Meta(min_length=1)]
    steps: Annotated[list[StepRecord], Meta(min_length=1, max_length=_MAX_STEPS)]
