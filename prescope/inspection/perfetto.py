"""Steps as files for https://ui.perfetto.dev: one or several, alone or on the clock of torch.profiler."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

from prescope.inspection.counters import counters
from prescope.inspection.critical import step_path
from prescope.inspection.view import StepView
from prescope.report.perfetto import STEPS_FORMAT, in_order, trace_document, write_document
from prescope.report.perfetto_events import CounterTrack, Event, Process


def write_perfetto(
    path: str | os.PathLike[str],
    steps: Sequence[StepView],
    notes: Mapping[str, str] | None = None,
    *,
    profile: str | os.PathLike[str] | None = None,
) -> None:
    """Write steps as trace events: planned and what happened as two processes.

    Parameters
    ----------
    path
        The file, written whole or not at all. That of one step alone can be read back by `open_view`.
    steps
        What to draw. Several follow one another; they begin where they began in real time when all of them
        know, else where everything of the step before has ended.
    notes
        Text pairs to keep with them.
    profile
        A file of ``torch.profiler``'s ``export_chrome_trace`` of the same run. Its events are kept, and the
        steps are drawn on its clock, in real time.

    Raises
    ------
    ValueError
        When there is no step, the profile is no such file, or a step ran in virtual time and has no place on
        its clock.
    """
    if not steps:
        raise ValueError("expected at least one step for a trace, got none")
    if profile is not None:
        write_document(path, _beside(steps, notes, profile))
    elif len(steps) == 1:
        write_document(path, step_document(steps[0], notes))
    else:
        write_document(path, _steps_document(steps, notes))


def step_document(step: StepView, notes: Mapping[str, str] | None = None) -> dict[str, Any]:
    """One step with its counters and its critical path, as an object ready for JSON."""
    return trace_document(
        step.schedules,
        {**dict(step.notes), **dict(notes or {}), "step": str(step.index)},
        counters={name: _counters(step, name) for name in step.schedules},
        paths={name: _path(step, name) for name in step.schedules},
        dilation=step.dilation,
        began_unix_ns=step.began_unix_ns,
    )


def _steps_document(steps: Sequence[StepView], notes: Mapping[str, str] | None) -> dict[str, Any]:
    began = [step.began_unix_ns for step in steps]
    if all(time_ns is not None for time_ns in began):
        first = min(
            (time_ns for plan in steps[0].schedules.values() for time_ns in _ends(plan.tasks)), default=0
        )
        # Perfetto draws no negative times; a copy may have begun before the first step.
        base_ns = (began[0] or 0) + min(round(first * steps[0].dilation), 0)
        clocks = [partial(_real_us, step, base_ns) for step in steps]
    else:
        clocks, offset_ns = [], 0
        for step in steps:
            times = [time_ns for schedule in step.schedules.values() for time_ns in _ends(schedule.tasks)]
            offset_ns += max(-min(times, default=0), 0)
            clocks.append(partial(_shifted_us, offset_ns))
            offset_ns += max(times, default=0)
    return _document(
        _draw(steps, clocks),
        {
            "format": STEPS_FORMAT,
            "notes": dict(notes or {}),
            "steps": [step.index for step in steps],
            "schedules": list(steps[0].schedules),
        },
    )


def _beside(
    steps: Sequence[StepView], notes: Mapping[str, str] | None, profile: str | os.PathLike[str]
) -> dict[str, Any]:
    document = _profile(profile)
    base_ns = int(document["baseTimeNanoseconds"])
    virtual = [step.index for step in steps if step.began_unix_ns is None]
    if virtual:
        raise ValueError(
            f"expected steps that ran in real time for the clock of {os.fspath(profile)}, got step "
            f"{virtual[0]} in virtual time; record with a backend that executes, such as cpu"
        )
    ours = _draw(steps, [partial(_real_us, step, base_ns) for step in steps])
    first = 10**8
    for event in ours:
        # Far from the numbers of processes, which the profiler uses.
        event["pid"] += first
    mine = {"format": STEPS_FORMAT, "notes": dict(notes or {}), "steps": [step.index for step in steps]}
    return {**document, "traceEvents": [*document["traceEvents"], *ours], "prescope": mine}


def _profile(path: str | os.PathLike[str]) -> dict[str, Any]:
    problem = f"{os.fspath(path)}: expected a file of torch.profiler's export_chrome_trace"
    try:
        data = Path(path).read_bytes()
        document = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    except (ValueError, OSError, EOFError) as error:
        raise ValueError(f"{problem}, got {error}") from error
    if not isinstance(document, dict) or not isinstance(document.get("traceEvents"), list):
        raise ValueError(f"{problem}, got other JSON")
    if not isinstance(document.get("baseTimeNanoseconds"), int):
        raise ValueError(f"{problem} with baseTimeNanoseconds, got one without; use torch >= 2.3")
    return document


def _draw(steps: Sequence[StepView], clocks: Sequence[Callable[[int], float]]) -> list[Event]:
    names = list(dict.fromkeys(name for step in steps for name in step.schedules))
    events: list[Event] = []
    for pid, name in enumerate(names, start=1):
        process = Process(pid, name)
        drawn: list[Event] = []
        for step, clock in zip(steps, clocks, strict=True):
            if name in step.schedules:
                drawn += process.draw(
                    step.schedules[name],
                    clock,
                    path=_path(step, name),
                    extra={"step": step.index},
                )
        for counter in _sums(steps, clocks, name):
            drawn += process.count(counter, lambda time_ns: time_ns / 1000)
        events += [*in_order(iter(drawn)), *process.names()]
    return events


def _document(events: list[Event], other: dict[str, Any]) -> dict[str, Any]:
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": other}


def _counters(step: StepView, name: str) -> tuple[CounterTrack, ...]:
    return tuple(
        CounterTrack(name=found.name, unit=found.unit, times_ns=found.times_ns, values=found.values)
        for found in counters(step, name)
    )


def _sums(
    steps: Sequence[StepView], clocks: Sequence[Callable[[int], float]], name: str
) -> list[CounterTrack]:
    """Counters of all steps, added up on the file's time: a copy may begin before the step before ends."""
    found: dict[str, tuple[str, dict[int, int]]] = {}
    for step, clock in zip(steps, clocks, strict=True):
        for counter in counters(step, name) if name in step.schedules else ():
            _, changes = found.setdefault(counter.name, (counter.unit, {}))
            before = 0
            for time_ns, value in zip(counter.times_ns, counter.values, strict=True):
                at_ns = round(1000 * clock(time_ns))
                changes[at_ns] = changes.get(at_ns, 0) + value - before
                before = value
    return [_track(name, unit, changes) for name, (unit, changes) in found.items()]


def _track(name: str, unit: str, changes: Mapping[int, int]) -> CounterTrack:
    times = sorted(time_ns for time_ns, change in changes.items() if change)
    values = accumulate(changes[time_ns] for time_ns in times)
    return CounterTrack(name=name, unit=unit, times_ns=tuple(times), values=tuple(values))


def _path(step: StepView, name: str) -> list[Any]:
    return [link.task for link in step_path(step, name)]


def _ends(tasks: Sequence[Any]) -> list[int]:
    return [time_ns for task in tasks for time_ns in (task.start_ns, task.end_ns)]


def _shifted_us(offset_ns: int, time_ns: int) -> float:
    return (offset_ns + time_ns) / 1000


def _real_us(step: StepView, base_ns: int, time_ns: int) -> float:
    """Real time since a base, in microseconds; what was planned is stretched like what was executed."""
    return ((step.began_unix_ns or 0) - base_ns + round(time_ns * step.dilation)) / 1000
