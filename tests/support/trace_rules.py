"""The rules of the Chrome trace event format that a viewer relies on, checked from outside."""

import json
from typing import Any

PHASES = {"X", "M", "s", "f"}
META = {"process_name", "process_sort_index", "thread_name", "thread_sort_index"}


def broken_trace_rules(text: str) -> list[str]:
    """Everything in a trace file that breaks the format; empty when it is valid."""
    document = json.loads(text)
    events: list[dict[str, Any]] = document["traceEvents"]
    broken = (
        [] if document.get("displayTimeUnit") in ("ms", "ns") else ["displayTimeUnit is neither ms nor ns"]
    )
    broken += [problem for event in events for problem in event_problems(event)]
    if broken:
        return broken
    slices: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for event in events:
        if event["ph"] == "X":
            start = whole_ns(event["ts"])
            slices.setdefault((event["pid"], event["tid"]), []).append(
                (start, start + whole_ns(event["dur"]))
            )
    named = {(e["pid"], e["tid"]) for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    broken += [f"track {track} has no name" for track in slices if track not in named]
    broken += [f"track {track} does not nest" for track, spans in slices.items() if not nests(spans)]
    return broken + flow_problems(events, slices)


def event_problems(event: dict[str, Any]) -> list[str]:
    """Missing or ill-typed fields of one event."""
    if event.get("ph") not in PHASES:
        return [f"unknown phase {event.get('ph')!r}"]
    required: dict[str, tuple[type, ...]] = {"name": (str,), "pid": (int,), "tid": (int,)}
    if event["ph"] == "M":
        required["args"] = (dict,)
        if event["name"] not in META:
            return [f"unknown metadata {event['name']!r}"]
    else:
        required |= {"ts": (int, float), "cat": (str,)}
    if event["ph"] == "X":
        required["dur"] = (int, float)
    if event["ph"] in "sf":
        required["id"] = (int, str)
    problems = [
        f"{event} lacks {key}" for key, kinds in required.items() if not isinstance(event.get(key), kinds)
    ]
    problems += [f"{event} has a negative {key}" for key in ("ts", "dur") if event.get(key, 0) < 0]
    return problems


def whole_ns(time_us: float) -> int:
    """Microseconds of a file as the nanoseconds they stand for."""
    return round(time_us * 1000)


def nests(spans: list[tuple[int, int]]) -> bool:
    """Whether any two spans are apart or one holds the other."""
    open_ends: list[int] = []
    for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
        while open_ends and open_ends[-1] <= start:
            open_ends.pop()
        if open_ends and end > open_ends[-1]:
            return False
        open_ends.append(end)
    return True


def flow_problems(
    events: list[dict[str, Any]], slices: dict[tuple[int, int], list[tuple[int, int]]]
) -> list[str]:
    """Arrows without both ends, backwards in time, or outside of every slice of their track."""
    flows: dict[Any, list[dict[str, Any]]] = {}
    for event in events:
        if event["ph"] in "sf":
            flows.setdefault(event["id"], []).append(event)
    problems = []
    for identity, ends in flows.items():
        if [end["ph"] for end in ends] != ["s", "f"]:
            problems.append(f"flow {identity} has the ends {[end['ph'] for end in ends]}")
        elif ends[0]["ts"] > ends[1]["ts"]:
            problems.append(f"flow {identity} runs backwards")
        for end in ends:
            at = whole_ns(end["ts"])
            track = slices.get((end["pid"], end["tid"]), [])
            if not any(start <= at <= stop for start, stop in track):
                problems.append(f"flow {identity} touches no slice at {at} ns")
    return problems
