"""The tables of ``disk_expected.py``."""

from __future__ import annotations

import argparse
from collections import defaultdict
from statistics import mean, stdev
from typing import Any

from benchmarks.disk_expected import (
    CLAIRVOYANT,
    ELSEWHERE,
    GUARD_ALONE,
    GUARD_STEPS,
    GUARD_WARM,
    KINDS,
    RESIDENCIES,
    SHIPPED,
    SWEPT,
    WAYS,
)

Sums = dict[tuple[Any, ...], int]
"""Time by seed, batch, costs, memory, predictor, residency and policy."""


def sums_of(lines: list[dict[str, Any]]) -> Sums:
    """Times of all lines."""
    return {
        (
            int(line["seed"]),
            int(line["batch"]),
            line["costs"],
            int(line["memory"]),
            line["predictor"],
            line["residency"],
            line["policy"],
        ): int(line["time_ns"])
        for line in lines
    }


def shares(sums: Sums, batch: int, costs: str, residency: str, policy: str) -> list[float]:
    """Share of the clairvoyant gain over no prefetch under the same residency, one for each seed."""
    gained: dict[int, int] = defaultdict(int)
    possible: dict[int, int] = defaultdict(int)
    for seed, of, at, memory, predictor, rule, way in sums:
        if (of, at, predictor, rule, way) != (batch, costs, "good", residency, "none"):
            continue
        place = (seed, of, at, memory, predictor, rule)
        gained[seed] += sums[(*place, "none")] - sums[(*place, policy)]
        possible[seed] += sums[(*place, "none")] - sums[(*place, CLAIRVOYANT)]
    return [gained[seed] / possible[seed] for seed in gained]


def worst_cell(sums: Sums, residency: str, policy: str) -> float:
    """How far a policy is behind no prefetch in its worst cell, all seeds of the cell together."""
    cells: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0, 0])
    for key, time_ns in sums.items():
        if key[4:] == ("good", residency, "none"):
            cell = cells[key[1:4]]
            cell[0] += time_ns
            cell[1] += sums[(*key[:6], policy)]
    return max(time_ns / without - 1 for without, time_ns in cells.values())


def worst_of_kinds(lines: list[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """Mean and worst change by the shipped policy after the first steps, by kind of predictor."""
    sums = sums_of(lines)
    found = {}
    for kind in KINDS:
        cells: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0, 0])
        for key, time_ns in sums.items():
            if key[4:] == ("any, long", SWEPT, "none"):
                cell = cells[key[1:4]]
                cell[0] += time_ns
                cell[1] += sums[(*key[:4], f"{kind}, long", SWEPT, SHIPPED)]
        changes = [time_ns / without - 1 for without, time_ns in cells.values()]
        found[kind] = (mean(changes), max(changes))
    return found


def guard_loss(sums: Sums) -> tuple[float, float]:
    """What the guard costs a good predictor: all cells together, and the worst one."""
    cells: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0, 0])
    for key, time_ns in sums.items():
        if key[4:] == ("good, long", SWEPT, SHIPPED):
            cell = cells[key[1:4]]
            cell[0] += sums[(*key[:6], "expected w=2, no guard")]
            cell[1] += time_ns
    whole = sum(cell[1] for cell in cells.values()) / sum(cell[0] for cell in cells.values()) - 1
    return whole, max(watched / free - 1 for free, watched in cells.values())


def markdown(lines: list[dict[str, Any]], options: argparse.Namespace) -> str:
    """All tables for people."""
    batches = sorted({int(line["batch"]) for line in lines})
    there = {(int(line["seed"]), int(line["batch"])) for line in lines}
    # Those that are not interrupted in the middle.
    whole_seeds = [
        seed for seed in sorted({seed for seed, _ in there}) if all((seed, one) in there for one in batches)
    ]
    lines = [line for line in lines if int(line["seed"]) in whole_seeds]
    sums = sums_of(lines)
    names = sorted({key[2] for key in sums})
    seeds = len(whole_seeds)
    if options.split in GUARD_ALONE:
        made = (
            "# Reading ahead from disk by bad predictors, simulated\n\n"
            f"Made by `python -m benchmarks.disk_expected --split {options.split} --seeds {seeds}` (do "
            "not edit); its docstring says what is simulated and on which sequences. "
            f"{seeds} seeds of {GUARD_STEPS} steps.\n"
        )
        return "\n".join([made, *_guarded(lines, sums)]) + "\n"
    columns = [(costs, batch) for costs in names for batch in batches]
    head = [
        "| {} | " + " | ".join(f"{costs}, batch {batch}" for costs, batch in columns) + " | worst cell |",
        "| --- |" + " ---: |" * (len(columns) + 1),
    ]
    parts = [
        "# Reading ahead from disk, simulated\n",
        f"Made by `python -m benchmarks.disk_expected --split {options.split}` (do not edit); its docstring "
        f"says what is simulated. {options.split.capitalize()} sequences, {seeds} seeds of {options.steps} "
        f"steps, of which {options.warm} fill the pool and are not counted.\n",
        f"## Share of the clairvoyant gain, residency {SWEPT}\n",
        "Time saved against reading on demand, of what is saved with forecasts that are the truth (12 layers "
        "ahead, same residency rule); 10, 25 and 50 % of memory together; mean over seeds, and their "
        "standard deviation. What plans with the truth is the same method and no bound: a share may exceed "
        "1. Last column: the cell that is worst against reading on demand (negative: faster).\n",
        head[0].format("policy"),
        head[1],
    ]
    for policy in list(WAYS)[1:]:
        cells = [_spread(shares(sums, batch, costs, SWEPT, policy)) for costs, batch in columns]
        parts.append(f"| {policy} | " + " | ".join(cells) + f" | {worst_cell(sums, SWEPT, policy):+.2%} |")
    parts += ["\n## By residency rule: milliseconds per step\n"]
    for memory in sorted({key[3] for key in sums}):
        parts += [
            f"\n{memory} % of the experts in memory:\n",
            "| residency, policy | "
            + " | ".join(f"{costs}, batch {batch}" for costs, batch in columns)
            + " |",
            "| --- |" + " ---: |" * len(columns),
        ]
        ways = [(rule, policy) for rule in RESIDENCIES for policy in (*ELSEWHERE, CLAIRVOYANT)]
        for rule, policy in [*ways, ("belady", "none"), ("belady", CLAIRVOYANT)]:
            cells = []
            for costs, batch in columns:
                times = [sums[(seed, batch, costs, memory, "good", rule, policy)] for seed in whole_seeds]
                cells.append(f"{mean(times) / 1e6 / (options.steps - options.warm):.1f}")
            parts.append(f"| {rule}, {policy} | " + " | ".join(cells) + " |")
    parts += ["\n## Bad predictors\n", *_guarded(lines, sums)]
    return "\n".join(parts) + "\n"


def _guarded(lines: list[dict[str, Any]], sums: Sums) -> list[str]:
    whole, worst = guard_loss(sums)
    return [
        f"Time of policy `{SHIPPED}` as shipped against reading on demand after its first {GUARD_WARM} "
        f"steps, residency {SWEPT}; mean over cells, and the worst. A good predictor loses {whole:+.2%} to "
        f"the guard, {worst:+.2%} in its worst cell.\n",
        "| predictor | mean | worst cell |",
        "| --- | ---: | ---: |",
        *(
            f"| {kind} | {middle:+.2%} | {most:+.2%} |"
            for kind, (middle, most) in worst_of_kinds(lines).items()
        ),
    ]


def _spread(values: list[float]) -> str:
    return f"{mean(values):.2f} ({stdev(values) if len(values) > 1 else 0.0:.2f})"
