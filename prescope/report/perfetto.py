"""Schedules as Chrome trace events, for https://ui.perfetto.dev, and back.

Every schedule is a process, every lane a thread; arrows lead from a copy to the computation that needs it.
Times are microseconds as the format wants them; the exact nanoseconds stand in ``args``, from which a file
written here is read back without loss.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prescope.formulation.schedule import Lane, Schedule, Task, TaskKind
from prescope.instances._atomic import atomic_file
from prescope.instances.recording import check_schedule
from prescope.report.perfetto_events import NOT_TASKS, CounterTrack, Event, Process

FORMAT = "prescope-trace/1"
STEPS_FORMAT = "prescope-trace-steps/1"
"""Of several steps: not read back."""

_MOST_NS = 2**62


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
    schedules: Mapping[str, Schedule],
    notes: Mapping[str, str] | None = None,
    *,
    counters: Mapping[str, Sequence[CounterTrack]] | None = None,
    paths: Mapping[str, Collection[Task]] | None = None,
    dilation: float = 1.0,
    began_unix_ns: int | None = None,
) -> dict[str, Any]:
    """Chrome trace events of named schedules, as an object ready for JSON.

    Parameters
    ----------
    schedules
        Drawn below each other in this order.
    notes
        Text pairs to keep with it.
    counters, paths
        Per schedule, counters to draw and its critical path.
    dilation, began_unix_ns
        Kept with it, as in `TraceFile`.

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
    events: list[Event] = []
    for pid, (name, schedule) in enumerate(schedules.items(), start=1):
        process = Process(pid, name)
        drawn = process.draw(
            schedule,
            lambda time_ns: (time_ns + offset_ns) / 1000,
            counters=(counters or {}).get(name, ()),
            path=(paths or {}).get(name, ()),
        )
        events += [*in_order(drawn), *process.names()]
    return {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {
            "format": FORMAT,
            "offset_ns": offset_ns,
            "notes": dict(notes or {}),
            "dilation": dilation,
            "began_unix_ns": began_unix_ns,
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


def in_order(events: Iterator[Event]) -> list[Event]:
    """Events by their time; those of one time in the order drawn."""
    return sorted(events, key=lambda event: event["ts"])


def write_document(path: str | os.PathLike[str], document: Mapping[str, Any]) -> None:
    """Write a document of trace events, whole or not at all; compressed where the name ends in ``.gz``."""
    text = (json.dumps(document, separators=(",", ":"), allow_nan=False) + "\n").encode()
    with atomic_file(Path(path)) as stream:
        stream.write(gzip.compress(text, mtime=0) if str(path).endswith(".gz") else text)


def write_trace(
    path: str | os.PathLike[str],
    schedules: Mapping[str, Schedule],
    notes: Mapping[str, str] | None = None,
    **options: Any,
) -> None:
    """Write named schedules as a trace file, whole or not at all; arguments as of `trace_document`."""
    write_document(path, trace_document(schedules, notes, **options))


def read_trace(path: str | os.PathLike[str]) -> TraceFile:
    """Read a file of `write_trace`.

    Raises
    ------
    ValueError
        When it is not one; the message names the file, what is wrong and the remedy.
    """
    remedy = "Write it again with `prescope inspect --perfetto` or `prescope run --traces`"
    try:
        data = Path(path).read_bytes()
        document = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
        other = document["otherData"]
        if other["format"] == STEPS_FORMAT:
            remedy = (
                "Name the recording itself, or write one step with `prescope inspect --step N --perfetto`"
            )
            raise ValueError("expected a trace of one step, got one of several, which is only for Perfetto")
        if other["format"] != FORMAT:
            raise ValueError(f"expected format {FORMAT!r}, got {other['format']!r}")
        schedules = {
            str(entry["name"]): _schedule(entry, document["traceEvents"]) for entry in other["schedules"]
        }
        if not schedules:
            raise ValueError("expected at least one schedule, got none")
        began, dilation = other.get("began_unix_ns"), float(other.get("dilation", 1.0))
        if not 0 < dilation < float("inf"):
            raise ValueError(f"expected a dilation > 0, got {dilation}")
        return TraceFile(
            schedules=schedules,
            notes={str(key): str(value) for key, value in other["notes"].items()},
            dilation=dilation,
            began_unix_ns=None if began is None else _whole(began),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{os.fspath(path)}: expected a trace written by prescope, got one without {error}. {remedy}"
        ) from error
    except (ValueError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{os.fspath(path)}: {error}. {remedy}") from error


def _schedule(entry: Mapping[str, Any], events: list[Event]) -> Schedule:
    ends = tuple(_whole(end) for end in entry["layer_end_ns"])
    schedule = Schedule(
        tasks=tuple(
            _task(event["args"])
            for event in events
            if event["ph"] == "X" and event["pid"] == entry["pid"] and event["cat"] not in NOT_TASKS
        ),
        layer_end_ns=ends,
        makespan_ns=_whole(entry["makespan_ns"]),
    )
    if not ends:
        raise ValueError("expected a schedule of at least one layer, got none")
    check_schedule(str(entry["name"]), schedule, layers=len(ends))
    return schedule


def _task(args: dict[str, Any]) -> Task:
    return Task(
        kind=TaskKind(args["kind"]),
        lane=Lane(args["lane"]),
        layer=_whole(args["layer"]),
        expert=None if args["expert"] is None else _whole(args["expert"]),
        slot=None if args["slot"] is None else _whole(args["slot"]),
        start_ns=_whole(args["start_ns"]),
        end_ns=_whole(args["end_ns"]),
    )


def _whole(value: Any) -> int:
    if type(value) is not int or abs(value) > _MOST_NS:
        raise ValueError(f"expected whole numbers up to {_MOST_NS}, got {str(value)[:40]!r}")
    return value
