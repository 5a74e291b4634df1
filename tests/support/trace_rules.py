"""The rules of the Chrome trace event format that a viewer relies on, checked from outside."""

import json
from typing import Any

PHASES = {"X", "M", "C", "s", "f"}
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
    return broken + flow_problems(events, slices) + order_problems(events) + counter_problems(events)


def order_problems(events: list[dict[str, Any]]) -> list[str]:
    """Events of a process that go back in time."""
    problems, last = [], {}
    for event in events:
        if event["ph"] != "M":
            if event["ts"] < last.get(event["pid"], 0):
                problems.append(f"{event['ph']} of process {event['pid']} goes back to {event['ts']}")
            last[event["pid"]] = event["ts"]
    return problems


def counter_problems(events: list[dict[str, Any]]) -> list[str]:
    """Counters that go below zero, never come back to it, or say twice at once what they are."""
    found: dict[tuple[int, str, str], list[tuple[float, float]]] = {}
    for event in events:
        if event["ph"] == "C":
            for unit, value in event["args"].items():
                found.setdefault((event["pid"], event["name"], unit), []).append((event["ts"], value))
    problems = [f"{key} goes below 0" for key, steps in found.items() if min(v for _, v in steps) < 0]
    problems += [f"{key} ends at {steps[-1][1]}" for key, steps in found.items() if steps[-1][1] != 0]
    problems += [
        f"{key} has two values at once"
        for key, steps in found.items()
        if len({ts for ts, _ in steps}) != len(steps)
    ]
    return problems


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
    if event["ph"] == "C":
        required["args"] = (dict,)
    problems = [
        f"{event} lacks {key}" for key, kinds in required.items() if not isinstance(event.get(key), kinds)
    ]
    if event["ph"] == "f" and event.get("bp") != "e":
        problems.append(f"{event} is not bound to the slice that encloses it")
    if event["ph"] == "C":
        problems += [
            f"{event} counts {value!r}" for value in event["args"].values() if type(value) not in (int, float)
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
