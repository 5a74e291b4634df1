"""The tables of the paper's setting, from the lines of `benchmarks.paper_setting`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import fmean, geometric_mean
from typing import Any

from benchmarks.paper_cells import CHUNK_TOKENS, INPUT_TOKENS, OUTPUT_TOKENS

# Highest gains in throughput that the paper reports of its whole system over each of these, in percent.
PUBLISHED = {"klotski": 141.0, "fate": 264.0, "fiddler": 129.0, "hybrimoe": 70.8}
OURS = ("predicted presched", "predicted dp", "predicted expected", "known presched", "known dp")
CELL = ("routing", "memory", "host", "model", "machine", "batch")

Line = dict[str, Any]
Cells = dict[tuple[str, ...], list[Line]]


def markdown(lines: list[Line]) -> str:
    """All tables."""
    main = [line for line in lines if (line["routing"], line["memory"], line["host"]) == MAIN]
    decode, prefill = by_cell(main, "decode"), by_cell(main, "prefill")
    seeds = max((len(cell) for cell in decode.values()), default=0)
    whole = {cell: whole_ns(decode[cell], prefill[cell]) for cell in decode if cell in prefill}
    parts = [
        "# The paper's setting, simulated",
        "",
        "Made by `python -m benchmarks.paper_setting` (do not edit). Four models on two machines, 24 GB of "
        f"card memory, batches of 4 to 64, {INPUT_TOKENS} tokens in, {OUTPUT_TOKENS} out, {seeds} seeds of "
        "synthetic routing. **Simulated** by the exact evaluator on assumed machine constants; every system "
        "has the same residents and slots. *predicted*: forecasts of an emulated predictor with recall "
        "0.86/0.83/0.79/0.76 at 1 to 4 layers ahead; *known*: forecasts that are right. Gains are in "
        "throughput: time of the rule over ours, less one, of the means over seeds. What is assumed and why "
        "the figures differ from the published ones: docs/rules.md.",
        "",
        "## Beside the published gains",
        "",
        "Highest (mean, lowest) over the cells; *whole* is prefill and decode together. Rules have the same "
        "forecasts as ours.",
        "",
        *beside(whole, decode),
        "",
        "## Other assumptions, decode",
        "",
        "Highest (mean, lowest) gain in percent with predicted demand. *Quarter*: a quarter of each layer is "
        "resident, whatever the card holds. *Host x 4*: an expert takes the host four times as long "
        "(one seed for 2, 8 and 16). "
        "*Recorded*: real routing of Qwen3-30B (consecutive tokens of one sequence taken as a batch).",
        "",
        *variants(lines),
        "",
        "## Distance from the lower bound",
        "",
        "Geometric mean of makespan / proved lower bound, in percent above it.",
        "",
        *distances(main),
        "",
        "## Every cell, decode, predicted demand",
        "",
        "Time of a step under `dp`, and gains of `presched` / `dp` in percent.",
        "",
        *cells(decode),
        "",
    ]
    return "\n".join(parts)


MAIN = ("synthetic", "card", "1")


def by_cell(lines: Iterable[Line], phase: str) -> Cells:
    """Lines of one phase by cell."""
    found: Cells = {}
    for line in lines:
        if line["phase"] == phase:
            found.setdefault(tuple(line[name] for name in CELL), []).append(line)
    return found


def mean_ns(lines: list[Line], label: str) -> float:
    """Mean makespan of ``"known dp"`` and the like; what needs no forecast is the same in both."""
    information, method = label.split()
    field = f"{information}_{method}_ns"
    return fmean(float(line.get(field) or line[f"known_{method}_ns"]) for line in lines)


def whole_ns(decode: list[Line], prefill: list[Line]) -> Callable[[str], float]:
    """Time of a whole generation by label."""
    chunks = int(decode[0]["batch"]) * INPUT_TOKENS / CHUNK_TOKENS
    return lambda label: chunks * mean_ns(prefill, label) + OUTPUT_TOKENS * mean_ns(decode, label)


def gains(times: Iterable[Callable[[str], float]], ours: str, rule: str) -> list[float]:
    """Gain of ``ours`` over a rule with the same information, in percent, per cell."""
    other = f"{ours.split()[0]} {rule}"
    return [100 * (time(other) / time(ours) - 1) for time in times]


def spread(values: list[float]) -> str:
    """Highest, mean and lowest."""
    return f"{max(values):.1f} ({fmean(values):.1f}, {min(values):.1f})" if values else "-"


def of_cells(found: Cells) -> list[Callable[[str], float]]:
    """Mean makespans by label, one function per cell."""
    return [lambda label, lines=lines: mean_ns(lines, label) for lines in found.values()]  # type: ignore[misc]


def beside(whole: dict[tuple[str, ...], Callable[[str], float]], decode: Cells) -> list[str]:
    """Gains beside the published ones."""
    text = ["| over | published, at most | ours | whole % | decode % |", "|---|---|---|---|---|"]
    for rule, published in PUBLISHED.items():
        for ours in OURS:
            both = [spread(gains(times, ours, rule)) for times in (whole.values(), of_cells(decode))]
            text.append(f"| {rule} | {published:g} | {ours} | {' | '.join(both)} |")
    return text


def variants(lines: list[Line]) -> list[str]:
    """Decode gains under other assumptions."""
    names = {
        MAIN: "as above",
        ("synthetic", "quarter", "1"): "quarter",
        **{("synthetic", "card", host): f"host x {host}" for host in ("2", "4", "8", "16")},
        ("recorded", "card", "1"): "recorded",
    }
    text = [f"| assumption | ours | {' | '.join(PUBLISHED)} |", "|---|---|" + "---|" * len(PUBLISHED)]
    for key, name in names.items():
        mine = [line for line in lines if (line["routing"], line["memory"], line["host"]) == key]
        times = of_cells(by_cell(mine, "decode"))
        for ours in ("predicted presched", "predicted dp"):
            row = (spread(gains(times, ours, rule)) for rule in PUBLISHED)
            text.append(f"| {name} | {ours} | {' | '.join(row)} |")
    return text


def distances(lines: list[Line]) -> list[str]:
    """How far everyone is from the bound."""
    fields = [name for name in (lines[0] if lines else {}) if name.endswith("_ns") and name != "bound_ns"]
    methods = list(dict.fromkeys(name.split("_", 1)[1].removesuffix("_ns") for name in fields))
    text = [
        "| method | decode, known | decode, predicted | prefill, known | prefill, predicted |",
        "|---|---|---|---|---|",
    ]
    for method in methods:
        row = []
        for phase in ("decode", "prefill"):
            for information in ("known", "predicted"):
                field = f"{information}_{method}_ns"
                mine = [line for line in lines if line["phase"] == phase]
                ratios = [int(line[field]) / int(line["bound_ns"]) for line in mine if field in line]
                row.append(f"{100 * (geometric_mean(ratios) - 1):.2f}" if ratios else "-")
        text.append(f"| {method} | {' | '.join(row)} |")
    return text


def cells(decode: Cells) -> list[str]:
    """One row per cell."""
    text = [
        f"| model | machine | batch | step ms | {' | '.join(PUBLISHED)} |",
        "|---|---|---|---|" + "---|" * len(PUBLISHED),
    ]
    for cell, lines in decode.items():
        row = []
        for rule in PUBLISHED:
            pair = [
                gains([lambda label, lines=lines: mean_ns(lines, label)], ours, rule)[0]  # type: ignore[misc]
                for ours in ("predicted presched", "predicted dp")
            ]
            row.append(" / ".join(f"{value:.1f}" for value in pair))
        step = mean_ns(lines, "predicted dp") / 1e6
        text.append(f"| {' | '.join(cell[3:])} | {step:.1f} | {' | '.join(row)} |")
    return text
