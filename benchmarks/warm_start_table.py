"""The table of `benchmarks.warm_starts`."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from statistics import median
from typing import Any

Rows = list[dict[str, Any]]
NEAR = 1.01
# Tree searches in floating point keep a margin to their bound; cp-sat keeps none.
PROVED = 2e-5


def markdown(rows: Rows) -> str:
    """The rows summed up: medians over steps."""
    best: dict[str, int] = {}
    for row in rows:
        if row["makespan_ns"]:
            reached = int(row["makespan_ns"])
            best[row["instance"]] = min(reached, best.get(row["instance"], reached))
    lines = [
        "# Warm starts on consecutive decode batches",
        "",
        "Made by `python -m benchmarks.warm_starts`. "
        f"Times: {platform.machine()}, {os.cpu_count()} cores, one worker, OR-Tools {version('ortools')}, "
        f"highspy {_version('highspy')}; medians over steps, from the call of the method. Real routing, "
        "assumed costs; makespans are planned, not executed.",
        "",
        "`first`: the first plan. `1 %`: a plan within 1 % of the best that any row found for the step. "
        "`proof`: the solver's own bound met its plan, to 0.002 % for `milp` and exactly otherwise (steps "
        "proved of all; `-` where none was). `det`: the same in CP-SAT's deterministic time. `gap`: plan to "
        "best, and plan to the solver's own bound, at the end. `hint`: how many experts of the plan before "
        "stayed where they were, of those with tokens now. `taken`: steps whose start the solver reports to "
        "have used, of those it reports on (HiGHS does not say). `model`: building or patching it. The bound "
        "of the programme over layers, which proves most of these dp plans in a millisecond, is left out.",
        "",
        "| trace | batch | method | start | first ms | 1 % ms | 1 % det | proof ms | proof det | proved | "
        "gap to best % | gap to bound % | hint | taken | patched | model ms | all ms |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    groups: dict[tuple[str, ...], Rows] = {}
    for row in rows:
        groups.setdefault((row["trace"], row["batch"], row["method"], row["start"]), []).append(row)
    for key, mine in groups.items():
        lines.append("| " + " | ".join([*key, *_cells(mine, best)]) + " |")
    return "\n".join(lines) + "\n"


def _cells(mine: Rows, best: dict[str, int]) -> list[str]:
    first, near, proof = [], [], []
    to_best, to_bound = [], []
    for row in mine:
        incumbents = _points(row["incumbents"])
        if incumbents:
            first.append(incumbents[0])
        near += [one for one in incumbents if one[1] <= NEAR * best[row["instance"]]][:1]
        if row["makespan_ns"]:
            reached, bound = int(row["makespan_ns"]), int(row["own_bound_ns"] or 0)
            to_best.append(reached / best[row["instance"]] - 1)
            to_bound.append(reached / max(bound, 1) - 1)
            if bound >= reached * (1 - PROVED):
                met = [one for one in _points(row["bounds"]) if one[1] >= reached * (1 - PROVED)]
                found = [one for one in incumbents if one[1] == reached]
                proof.append(max(met[0], found[0], key=lambda one: one[0]))
    changed = [(int(row["kept"]), int(row["placed"])) for row in mine if row["kept"]]
    kept = "-"
    if changed:
        kept = f"{sum(one for one, _ in changed)}/{sum(sum(pair) for pair in changed)}"
    told = [row["start_accepted"] == "True" for row in mine if row["start_accepted"]]
    patched = [row["patched"] == "True" for row in mine if row["patched"]]
    return [
        _median([one[0] / 1e6 for one in first], 1, len(mine)),
        _median([one[0] / 1e6 for one in near], 1, len(mine)),
        _median([one[2] for one in near if one[2] is not None], 4, len(mine)),
        _median([one[0] / 1e6 for one in proof], 1, len(mine)),
        _median([one[2] for one in proof if one[2] is not None], 4, len(mine)),
        f"{len(proof)}/{len(mine)}",
        _percent(to_best),
        _percent(to_bound),
        kept,
        f"{sum(told)}/{len(told)}" if told else "-",
        f"{sum(patched)}/{len(patched)}" if patched else "-",
        _median([int(row["model_ns"]) / 1e6 for row in mine if row["model_ns"]], 2, 0),
        _median([int(row["time_ns"]) / 1e6 for row in mine], 0, 0),
    ]


def _points(text: str) -> list[tuple[int, int, float | None]]:
    points = []
    for one in text.split():
        time_ns, value, work = one.split(":")
        points.append((int(time_ns), int(value), float(work) if work else None))
    return points


def _median(values: list[float], digits: int, expected: int) -> str:
    """The median, with how many of the steps have a value where not all do."""
    if not values:
        return "-"
    count = "" if len(values) >= expected else f" ({len(values)}/{expected})"
    return f"{median(values):.{digits}f}{count}"


def _percent(values: list[float]) -> str:
    return f"{100 * sum(values) / len(values):.3f}" if values else "-"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
