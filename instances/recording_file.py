"""Recording files: ``.json`` and ``.json.gz``, the steps of a run in full."""

from __future__ import annotations

import os
from collections.abc import Iterable

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from prescope.formulation import CostModel, Instance, Lane, Plan, Schedule, Task, TaskKind, evaluate
from prescope.formulation.forecast import Forecast
from prescope.formulation.infeasible import InfeasiblePlanError
from prescope.instances import _recording_schema as schema
from prescope.instances._convert import (
    at_field,
    costs_from_record,
    costs_record,
    instance_from_record,
    instance_record,
)
from prescope.instances._json_file import digest, read_json, write_json
from prescope.instances._plan_convert import plan_from_record, plan_record
from prescope.instances._schema import DemandRecord, InstanceRecord, Tokens
from prescope.instances.recording import RecordedStep, Recording

# Digits behind the point that a forecast keeps in a file.
_DIGITS = 4
_KINDS = {kind.value: kind for kind in TaskKind}
_LANES = {lane.value: lane for lane in Lane}


def read_recording(path: str | os.PathLike[str]) -> Recording:
    """Read a recording.

    Raises
    ------
    InstanceFileError
        When it is missing, truncated, altered, from a newer version, too large or against the schema; the
        message names the file, the field and the remedy.
    """
    seen = _Seen()
    return read_json(path, schema.RecordingDocument, seen.understand, seen.express)


def write_recording(path: str | os.PathLike[str], recording: Recording) -> str:
    """Write a recording atomically (``.json``, or ``.json.gz`` compressed) and return its checksum.

    Forecasts are rounded to four decimals; everything else comes back as it is.

    Raises
    ------
    InstanceFileError
        When the name has another ending or the content is beyond the limits of the format: a long run needs
        ``.json.gz``, and fewer steps where that is too large, too.
    OSError
        When the folder cannot be written to.
    """
    seen = _Seen()
    return write_json(path, schema.RecordingDocument, recording, seen.understand, seen.express)


class _Seen:
    """Both ways between recordings and documents, each once: evaluating the steps is most of the work."""

    def __init__(self) -> None:
        self._document: schema.RecordingDocument | None = None

    def understand(self, document: schema.RecordingDocument) -> Recording:
        """The recording of a document."""
        recording = _understand(document)
        self._document = msgspec.structs.replace(document, sha256=digest(document))
        return recording

    def express(self, recording: Recording) -> schema.RecordingDocument:
        """The document of a recording, with the checksum of what it holds."""
        # What was understood is all in the document, whose checksum is taken anew.
        return _express(recording) if self._document is None else self._document


def _express(recording: Recording) -> schema.RecordingDocument:
    costs: list[CostModel] = []
    steps: list[schema.StepRecord] = []
    before: tuple[tuple[int, ...], ...] | None = None
    for step in recording.steps:
        if step.instance.costs not in costs:
            costs.append(step.instance.costs)
        same = before == step.instance.residents
        steps.append(_step_record(step, costs.index(step.instance.costs), same_residents=same))
        before = step.instance.residents
    document = schema.RecordingDocument(
        format=schema.RECORDING_FORMAT,
        version=1,
        sha256="",
        experts=recording.steps[0].instance.experts,
        facts=dict(recording.facts),
        costs=[costs_record(model) for model in costs],
        steps=steps,
    )
    return msgspec.structs.replace(document, sha256=digest(document))


def _understand(document: schema.RecordingDocument) -> Recording:
    with at_field("costs"):
        costs = [costs_from_record(record) for record in document.costs]
        first_uses = list(dict.fromkeys(record.costs for record in document.steps))
        if first_uses != list(range(len(costs))) or any(
            model in costs[:at] for at, model in enumerate(costs)
        ):
            raise ValueError("expected distinct costs in the order in which steps use them, got others")
    steps: list[RecordedStep] = []
    residents: list[list[int]] | None = None
    for number, record in enumerate(document.steps):
        with at_field(f"steps[{number}]"):
            if record.residents == residents:
                raise ValueError("expected residents in the first step and null where they stay, got others")
            residents = residents if record.residents is None else record.residents
            if residents is None:
                raise ValueError("expected residents in the first step, got null")
            steps.append(_step(record, document, costs[record.costs], residents))
    with at_field("steps"):
        return Recording(steps=tuple(steps), facts=document.facts)


def _step_record(step: RecordedStep, costs: int, *, same_residents: bool) -> schema.StepRecord:
    instance = step.instance
    whole = instance_record(instance)
    counts = instance.demand.counts
    planned = _planned(instance, step.plan)
    return schema.StepRecord(
        index=step.index,
        name=instance.name,
        phase=step.phase,  # type: ignore[arg-type]
        tokens=step.tokens,
        costs=costs,
        batch_tokens=instance.demand.batch_tokens,
        demand=[
            [int(value) for expert in row.nonzero()[0] for value in (expert, row[expert])] for row in counts
        ],
        residents=None if same_residents else whole.residents,
        slots=instance.slots,
        lookahead=instance.lookahead,
        tier=whole.tier,
        host_computes=instance.host_computes,
        link_ready_ns=instance.link_ready_ns,
        prediction_ns=whole.prediction_ns,
        predicted=UNSET if whole.predicted is None else whole.predicted,
        plan=plan_record(step.plan),
        schedules={
            name: None if schedule == planned else _schedule_record(schedule)  # type: ignore[misc]
            for name, schedule in step.schedules.items()
        },
        forecasts=[_forecast_record(forecast) for forecast in step.forecasts] or UNSET,
        dilation=step.dilation,
        began_unix_ns=step.began_unix_ns,
        notes=dict(step.notes),
    )


def _step(
    record: schema.StepRecord,
    document: schema.RecordingDocument,
    costs: CostModel,
    residents: list[list[int]],
) -> RecordedStep:
    instance = instance_from_record(
        InstanceRecord(
            name=record.name,
            costs=costs_record(costs),
            demand=DemandRecord(
                batch_tokens=record.batch_tokens,
                counts=[_counts(row, document.experts) for row in record.demand],
            ),
            residents=residents,
            slots=record.slots,
            lookahead=record.lookahead,
            tier=record.tier,
            host_computes=record.host_computes,
            link_ready_ns=record.link_ready_ns,
            predicted=None if isinstance(record.predicted, UnsetType) else record.predicted,
            prediction_ns=record.prediction_ns,
        )
    )
    plan = plan_from_record(record.plan)
    schedules: dict[str, Schedule] = {}
    planned = _planned(instance, plan)
    for name, written in record.schedules.items():
        schedule = planned if written is None else _schedule(written)
        if schedule is None:
            # Says why the plan does not fit.
            schedule = evaluate(instance, plan)
        elif written is not None and schedule == planned:
            raise ValueError(f"expected null for a {name} schedule that is the evaluator's, got all of it")
        schedules[name] = schedule
    return RecordedStep(
        index=record.index,
        instance=instance,
        plan=plan,
        schedules=schedules,
        tokens=record.tokens,
        phase=record.phase,
        forecasts=() if isinstance(record.forecasts, UnsetType) else _forecasts(record.forecasts),
        dilation=record.dilation,
        began_unix_ns=record.began_unix_ns,
        notes=record.notes,
    )


def _counts(pairs: list[Tokens], experts: int) -> list[int]:
    counts = [0] * experts
    named, tokens = pairs[::2], pairs[1::2]
    if len(named) != len(tokens) or named != sorted(set(named)) or any(e >= experts for e in named):
        raise ValueError(f"expected ascending experts below {experts}, each with tokens, got {pairs[:20]}")
    if 0 in tokens:
        raise ValueError(f"expected experts with tokens, got one without among {pairs[:20]}")
    for expert, count in zip(named, tokens, strict=True):
        counts[expert] = count
    return counts


def _planned(instance: Instance, plan: Plan) -> Schedule | None:
    try:
        return evaluate(instance, plan)
    except InfeasiblePlanError:
        # What ran may lean on contents that an earlier step left behind: it is stored as it was.
        return None


def _schedule_record(schedule: Schedule) -> schema.ScheduleRecord:
    return schema.ScheduleRecord(
        tasks=[
            schema.TaskRecord(
                task.kind.value,
                task.lane.value,
                task.layer,
                task.expert,
                task.slot,
                task.start_ns,
                task.end_ns,
            )
            for task in schedule.tasks
        ],
        layer_end_ns=list(schedule.layer_end_ns),
        makespan_ns=schedule.makespan_ns,
    )


def _schedule(record: schema.ScheduleRecord) -> Schedule:
    return Schedule(
        tasks=tuple(
            Task(
                kind=_KINDS[task.kind],
                lane=_LANES[task.lane],
                layer=task.layer,
                expert=task.expert,
                slot=task.slot,
                start_ns=task.start_ns,
                end_ns=task.end_ns,
            )
            for task in record.tasks
        ),
        layer_end_ns=tuple(record.layer_end_ns),
        makespan_ns=record.makespan_ns,
    )


def _forecast_record(forecast: Forecast | None) -> schema.ForecastRecord | None:
    if forecast is None:
        return None
    return schema.ForecastRecord(
        expected_tokens=np.round(forecast.expected_tokens, _DIGITS).tolist(),
        probability=np.round(forecast.probability, _DIGITS).tolist(),
    )


def _forecasts(records: Iterable[schema.ForecastRecord | None]) -> tuple[Forecast | None, ...]:
    return tuple(
        None
        if record is None
        else Forecast(
            expected_tokens=np.array(record.expected_tokens, dtype=np.float64),
            probability=np.array(record.probability, dtype=np.float64),
        )
        for record in records
    )
