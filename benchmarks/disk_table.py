"""The disk tier's results as Markdown."""

from __future__ import annotations

import statistics
from typing import Any

Line = dict[str, Any]

COLUMNS = (
    ("system", "system"), ("steps", "steps"), ("tokens/s", "tokens_per_s"), ("MB/token", "mb_per_token"),
    ("hit %", "hit_percent"), ("p50 ms", "p50_ms"), ("p99 ms", "p99_ms"), ("I/O bound %", "io_share"),
    ("compute bound %", "compute_share"), ("larger bound %", "bound_share"),
    ("measured / planned", "planned_median"), ("median deviation %", "deviation_p50"),
    ("quartiles %", "deviation_quartiles"), ("deciding, ms/step", "plan_ms"),
    ("prefetches useful/wasted/late", "prefetch"),
)  # fmt: skip


def with_shares(lines: list[Line]) -> list[Line]:
    """Lines with their shares of the bounds, by the rail's best speed in any cell of the model."""
    best: dict[str, float] = {}
    for line in lines:
        best[line["model"]] = max(best.get(line["model"], 0.0), float(line["rail_gb_s"]))
    added = []
    for line in lines:
        ms_per_token = 1000 / float(line["tokens_per_s"])
        io = 100 * float(line["belady_mb_per_token"]) / best[line["model"]] / ms_per_token
        compute = 100 * float(line["compute_ms_per_token"]) / ms_per_token
        shares = {"io_share": io, "compute_share": compute, "bound_share": max(io, compute)}
        added.append({**line, **{name: f"{share:.1f}" for name, share in shares.items()}})
    return added


def markdown(lines: list[Line], notes: list[str]) -> str:
    """Notes, then one table per model, budget and batch."""
    lines = with_shares(lines)
    text = ["# Disk tier, measured", "", *(f"- {note}" for note in notes), ""]
    for key in dict.fromkeys(cell_key(line) for line in lines):
        cell = [line for line in lines if cell_key(line) == key]
        model, percent, batch = key
        text += [f"## {model}, {percent} % of the experts' bytes, batch {batch}", ""]
        text += ["| " + " | ".join(title for title, _ in COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
        ordered = sorted(cell, key=lambda line: -float(line["tokens_per_s"]))
        text += ["| " + " | ".join(str(line[name]) for _, name in COLUMNS) + " |" for line in ordered]
        text += ["", verdict(ordered), ""]
    return "\n".join(text)


def cell_key(line: Line) -> tuple[str, str, str]:
    """Model, budget and batch."""
    return str(line["model"]), str(line["budget_percent"]), str(line["batch"])


def verdict(ordered: list[Line]) -> str:
    """Who is first, and by how much."""
    speeds = {line["system"]: float(line["tokens_per_s"]) for line in ordered}
    if "ours" not in speeds or len(speeds) < 2:
        return ""
    best = max((name for name in speeds if name != "ours"), key=lambda name: speeds[name])
    ratio = speeds["ours"] / speeds[best]
    place = "first" if ratio >= 1 else "not first"
    return f"ours is {place}: {ratio:.2f} times the best other one ({best})."


def deviations(lines: list[Line]) -> str:
    """Median over the engine's cells of their median deviation from the plan."""
    found = [float(line["deviation_p50"]) for line in lines if line["deviation_p50"] != ""]
    return f"{statistics.median(found):.1f} %" if found else "not measured"
