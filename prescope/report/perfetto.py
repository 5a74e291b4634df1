"""Schedules as Chrome trace events, for https://ui.perfetto.dev, and back.

Every schedule is a process, every lane a thread; arrows lead from a copy to the computation that needs it.
Times are microseconds as the format wants them; the exact nanoseconds stand in ``args``, from which a file
written here is read back without loss.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prescope.formulation.schedule import Lane, Schedule, Task, TaskKind
from prescope.instances._atomic import atomic_file
from prescope.report.origin import MarkedTask, Origin, mark

FORMAT = "prescope-trace/1"
_LANES = (Lane.LINK, Lane.GPU, Lane.CPU)
_TRACKS_PER_LANE = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFile:
    """What a trace file holds.

    Parameters
    ----------
    schedules
        By name, for example ``"planned"`` and ``"executed"``.
    notes
        Text pairs: where it comes from.
    dilation, began_unix_ns
        As in `prescope.instances.RecordedStep`; ``None`` in virtual time.
    """

    schedules: dict[str, Schedule]
    notes: dict[str, str]
    dilation: float = 1.0
    began_unix_ns: int | None = None


def trace_document(
    schedules: Mapping[str, Schedule], notes: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Chrome trace events of named schedules, as an object ready for JSON.

    Parameters
    ----------
    schedules
        Drawn below each other in this order.
    notes
        Text pairs to keep with it.

    Raises
    ------
    ValueError
        When there is no schedule.
    """
    if not schedules:
        raise ValueError("expected at least one schedule, got none")
    # Perfetto draws no negative times; a copy may have begun in the step before.
    starts = [task.start_ns for schedule in schedules.values() for task in schedule.tasks]
    offset_ns = max(-min(starts, default=0), 0)
    events: list[dict[str, Any]] = []
    for pid, (name, schedule) in enumerate(schedules.items(), start=1):
        events += _process(pid, name, schedule, offset_ns)
    return {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {
            "format": FORMAT,
            "offset_ns": offset_ns,
            "notes": dict(notes or {}),
            "schedules": [
                {
                    "pid": pid,
                    "name": name,
                    "layer_end_ns": list(schedule.layer_end_ns),
                    "makespan_ns": schedule.makespan_ns,
                }
                for pid, (name, schedule) in enumerate(schedules.items(), start=1)
            ],
        },
    }


def write_trace(
    path: str | os.PathLike[str],
    schedules: Mapping[str, Schedule],
    notes: Mapping[str, str] | None = None,
) -> None:
    """Write named schedules as a trace file, whole or not at all; arguments as of `trace_document`."""
    text = json.dumps(trace_document(schedules, notes), separators=(",", ":")) + "\n"
    with atomic_file(Path(path)) as stream:
        stream.write(text.encode())


def read_trace(path: str | os.PathLike[str]) -> TraceFile:
    """Read a file of `write_trace`.

    Raises
    ------
    ValueError
        When it is not one; the message names the file, what is wrong and the remedy.
    """
    remedy = "Write it again with `prescope inspect --perfetto` or `prescope run --traces`"
    try:
        document = json.loads(Path(path).read_bytes())
        other = document["otherData"]
        if other["format"] != FORMAT:
            raise ValueError(f"expected format {FORMAT!r}, got {other['format']!r}")
        schedules = {
            str(entry["name"]): Schedule(
                tasks=tuple(_task(event["args"]) for event in _slices(document["traceEvents"], entry["pid"])),
                layer_end_ns=tuple(int(end) for end in entry["layer_end_ns"]),
                makespan_ns=int(entry["makespan_ns"]),
            )
            for entry in other["schedules"]
        }
        notes = {str(key): str(value) for key, value in other["notes"].items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{os.fspath(path)}: expected a trace written by prescope, got one without {error}. {remedy}"
        ) from error
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {error}. {remedy}") from error
    return TraceFile(schedules=schedules, notes=notes)


def _slices(events: list[dict[str, Any]], pid: int) -> Iterator[dict[str, Any]]:
    slices = (event for event in events if event["ph"] == "X" and event["pid"] == pid)
    return (event for event in slices if event["cat"] != "layer")


def _task(args: dict[str, Any]) -> Task:
    return Task(
        kind=TaskKind(args["kind"]),
        lane=Lane(args["lane"]),
        layer=args["layer"],
        expert=args["expert"],
        slot=args["slot"],
        start_ns=args["start_ns"],
        end_ns=args["end_ns"],
    )


def _process(pid: int, name: str, schedule: Schedule, offset_ns: int) -> Iterator[dict[str, Any]]:
    yield _meta(pid, 0, "process_name", {"name": name})
    yield _meta(pid, 0, "process_sort_index", {"sort_index": pid})
    yield _meta(pid, 1, "thread_name", {"name": "layers"})
    yield _meta(pid, 1, "thread_sort_index", {"sort_index": 1})
    for layer, end_ns in enumerate(schedule.layer_end_ns):
        start_ns = schedule.layer_end_ns[layer - 1] if layer else 0
        yield _slice(pid, 1, f"layer {layer}", "layer", start_ns + offset_ns, end_ns - start_ns, {})
    threads: dict[int, str] = {}
    # What each track is busy until: tasks of one lane that overlap would not nest, so they get another track.
    until: dict[int, int] = {}
    copies: dict[tuple[int, int | None], tuple[int, int]] = {}
    flow = pid * 10**6
    for entry in mark(schedule):
        task = entry.task
        tid = 10 + _LANES.index(task.lane) * _TRACKS_PER_LANE
        while until.get(tid, task.start_ns) > task.start_ns:
            tid += 1
        until[tid] = task.end_ns
        threads[tid] = task.lane.value
        yield _task_slice(pid, tid, entry, offset_ns)
        key = task.layer, task.expert
        if task.kind is TaskKind.COPY:
            copies[key] = tid, task.start_ns
        elif task.slot is not None and entry.origin is not Origin.UNUSED and key in copies:
            flow += 1
            yield from _arrow(pid, flow, copies[key], (tid, task.start_ns), offset_ns)
    for tid, lane in sorted(threads.items()):
        yield _meta(pid, tid, "thread_name", {"name": lane})
        yield _meta(pid, tid, "thread_sort_index", {"sort_index": tid})


def _task_slice(pid: int, tid: int, entry: MarkedTask, offset_ns: int) -> dict[str, Any]:
    task = entry.task
    name = f"L{task.layer} dense" if task.expert is None else f"L{task.layer} E{task.expert}"
    args = {
        "kind": task.kind.value,
        "lane": task.lane.value,
        "layer": task.layer,
        "expert": task.expert,
        "slot": task.slot,
        "start_ns": task.start_ns,
        "end_ns": task.end_ns,
        "origin": entry.origin.value,
    }
    return _slice(pid, tid, name, entry.origin.value, task.start_ns + offset_ns, task.duration_ns, args)


def _slice(
    pid: int, tid: int, name: str, category: str, start_ns: int, length_ns: int, args: dict[str, Any]
) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "pid": pid,
        "tid": tid,
        "ts": start_ns / 1000,
        "dur": length_ns / 1000,
        "args": args,
    }


def _arrow(
    pid: int, flow: int, tail: tuple[int, int], head: tuple[int, int], offset_ns: int
) -> Iterator[dict[str, Any]]:
    shared = {"name": "weights", "cat": "copy", "id": flow, "pid": pid}
    yield {**shared, "ph": "s", "tid": tail[0], "ts": (tail[1] + offset_ns) / 1000}
    # "e": the arrow ends at the slice that encloses this time, not at the next one.
    yield {**shared, "ph": "f", "bp": "e", "tid": head[0], "ts": (head[1] + offset_ns) / 1000}


def _meta(pid: int, tid: int, name: str, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "args": args}
