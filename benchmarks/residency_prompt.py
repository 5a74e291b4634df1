"""Prefetch and moving residents where there is little to learn from: one prompt, tiny.

``python benchmarks/residency_prompt.py`` does what ``residency_gain.py`` does, at batch 1, with two other
sources and with forecasts of another kind, as so little trains no predictor: what comes in a step is forecast
by the outlook model of one step ahead, from the steps before alone.

- Qwen3-30B-A3B: one prompt with 156 positions (``../shared/traces``), split by position: fitted on 0 to 63,
  penalties chosen on 64 to 95, then fitted on both; reported on 96 to 155, in a row. Entries that were not
  recorded count as no use.
- tiny: a trace written by ``prescope record tiny --tokens 64 -o TRACE`` and given by ``--tiny TRACE``, split
  by sequence: half are fitted on, a quarter choose the penalties, each of the others is a run.

A quarter of the experts is resident at first, 8 slots (2 for the tiny model), costs as assumed in
``residency_gain.py`` for the sizes in ``CELLS``. Times are simulated. Writes
``benchmarks/results/residency_prompt.csv`` and ``.md``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import residency_gain
from csv_lines import write_lines
from residency_gain import NONE, PREFETCH, simulate, worth_of
from uncertainty import assumed_costs
from uncertainty_steps import HORIZONS, Steps

from prescope.formulation import Demand, Instance
from prescope.formulation.demand import FloatArray, IntArray
from prescope.instances import choose_residents, read_trace
from prescope.solver.residency import Learned, MovingAverage, OutlookSettings, OutlookSums, fit_outlook
from prescope.solver.residency.history import PENALTIES
from prescope.solver.residency.outlook_model import Inputs, use_of

HERE = Path(__file__).parent
QWEN = HERE.parents[1] / "shared" / "traces" / "qwen3_30b_a3b.npz"
# MB of an expert, link and host in GB/s.
CELLS = ((2.7, 24, 120), (9.4, 24, 60))
WAYS = ("no prefetch", "expected", "expected, average", "expected, learned")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Source:
    """Sequences of steps, int64 ``[steps, layers, experts]`` each, by what they serve; ``chosen`` a token."""

    name: str
    chosen: int
    slots: int
    fitted: Sequence[IntArray]
    choosing: Sequence[IntArray]
    runs: Sequence[tuple[IntArray, IntArray]]
    """What came before, and what is reported on."""


def main() -> int:
    """Simulate what there is and write both files."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    options.add_argument("--tiny", type=Path, help="a trace of the tiny model")
    options.add_argument("--output", type=Path, default=HERE / "results")
    chosen = options.parse_args()
    sources = [qwen()] if QWEN.exists() else []
    if chosen.tiny is not None:
        sources.append(tiny(chosen.tiny))
    if not sources:
        print(f"nothing to do: no trace {QWEN}", file=sys.stderr)
        return 0
    lines = [line for source in sources for cell in CELLS for line in measure(source, cell)]
    chosen.output.mkdir(parents=True, exist_ok=True)
    path = chosen.output / "residency_prompt.csv"
    write_lines(path, lines)
    path.with_suffix(".md").write_text(markdown(lines), encoding="utf-8")
    return 0


def qwen() -> Source:
    """The single prompt, split by position."""
    with np.load(QWEN, allow_pickle=False) as arrays:
        ids = arrays["topk_ids"].astype(np.int64)
    counts = np.zeros((*ids.shape[:2], 129), dtype=np.int64)
    np.put_along_axis(counts, np.minimum(ids, 128), 1, axis=2)
    steps = counts[:, :, :128]
    return Source(
        name="Qwen3-30B-A3B, one prompt",
        chosen=6,
        slots=8,
        fitted=[steps[:64]],
        choosing=[steps[64:96]],
        runs=[(steps[:96], steps[96:])],
    )


def tiny(path: Path) -> Source:
    """A recorded trace of the tiny model, split by sequence; the first steps of a run are seen before it."""
    trace = read_trace(path)
    sequences = []
    for first, end in zip(trace.seq_offsets[:-1], trace.seq_offsets[1:], strict=True):
        ids = trace.topk_ids[first:end].astype(np.int64)
        counts = np.zeros((*ids.shape[:2], trace.meta.experts), dtype=np.int64)
        np.put_along_axis(counts, ids, 1, axis=2)
        sequences.append(counts)
    half, rest = len(sequences) // 2, len(sequences) * 3 // 4
    return Source(
        name="tiny model",
        chosen=trace.meta.top_k,
        slots=2,
        fitted=sequences[:half],
        choosing=sequences[half:rest],
        runs=[(one[:8], one[8:]) for one in sequences[rest:]],
    )


def fitted_model(source: Source, start: FloatArray, **settings: Any) -> OutlookSums:
    """The outlook model with the penalty that predicts the choosing steps best, fitted to them too."""
    kept = fit_outlook(source.fitted, start, OutlookSettings(**settings))
    judge = fit_outlook(source.choosing, start, OutlookSettings(**settings))

    def misfit(penalty: float) -> float:
        kept.settings = OutlookSettings(penalty=penalty, **settings)
        return judge.misfit(kept.solve())

    best = OutlookSettings(penalty=min(PENALTIES, key=misfit), **settings)
    return fit_outlook([*source.fitted, *source.choosing], start, best)


def measure(source: Source, cell: tuple[float, int, int]) -> list[dict[str, Any]]:
    """Every way on every run."""
    size_mb, link, cpu = cell
    known = np.concatenate([*source.fitted, *source.choosing]).sum(axis=0)
    shares = (known + 0.5) / (known + 0.5).sum(axis=1, keepdims=True)
    start = source.chosen * shares
    residents = choose_residents(shares, fraction=0.25)
    soon = fitted_model(source, start, ahead=1, discount=0.0).solve()
    outlook = fitted_model(source, start)
    residency_gain.SLOTS = source.slots
    lines = []
    for run, (before, counts) in enumerate(source.runs):
        steps = steps_of(before, counts, start, soon)
        layers, total = counts.shape[1], len(steps.counts)
        instance = Instance(
            name="steps",
            costs=assumed_costs(size_mb, link, cpu, total),
            demand=Demand(counts=steps.counts, batch_tokens=1),
            residents=residents * len(counts),
            slots=source.slots,
            lookahead=total,
        )
        curve = instance.costs.cpu[0]
        costs = {"fixed_ns": float(2 * curve(1) - curve(2)), "per_token_ns": float(curve(2) - curve(1))}
        worth = {
            "expected, average": worth_of(MovingAverage(shares, decay=0.03, **costs), steps, layers),
            "expected, learned": worth_of(Learned(start, outlook, **costs), steps, layers),
        }
        for way in WAYS:
            code = NONE if way == "no prefetch" else PREFETCH
            ends_ns, swaps = simulate(instance, steps, layers, code, worth.get(way))
            lines.append(
                {
                    "source": source.name,
                    "run": run,
                    "expert_mb": size_mb,
                    "link_gb_s": link,
                    "cpu_gb_s": cpu,
                    "way": way,
                    "steps": len(counts),
                    "time_ns": int(ends_ns[-1]),
                    "swaps": swaps,
                }
            )
    return lines


def steps_of(before: IntArray, counts: IntArray, start: FloatArray, soon: FloatArray) -> Steps:
    """Steps in a row with forecasts from the steps before alone, the same at every distance."""
    inputs = Inputs(start)
    chance = []
    for number, step in enumerate([*before, *counts]):
        if number >= len(before):
            chance.append(np.clip((inputs.rows()[:, None, :] @ soon)[:, 0], 0.0, 1.0))
        inputs.observe(use_of(step, start))
    experts = counts.shape[2]
    said = np.repeat(np.concatenate(chance)[None], HORIZONS, axis=0)
    return Steps(
        counts=counts.reshape(-1, experts),
        probabilities=said,
        expected_tokens=said,
        before=before.reshape(-1, experts),
    )


def markdown(lines: list[dict[str, Any]]) -> str:
    """The table for people."""
    parts = [
        "# Prefetch and moving residents where there is little to learn from\n",
        "Made by `python benchmarks/residency_prompt.py` (do not edit); its docstring says how the sequences "
        "are split. Batch 1, simulated, assumed costs. Time saved over residents that never move without "
        "prefetch, in percent of all runs' time.\n",
        "| source | cell | steps | " + " | ".join(WAYS[1:]) + " |",
        "| --- | --- | ---: |" + " ---: |" * (len(WAYS) - 1),
    ]
    for key in dict.fromkeys(
        (one["source"], one["expert_mb"], one["link_gb_s"], one["cpu_gb_s"]) for one in lines
    ):
        here = [one for one in lines if (one["source"], one["expert_mb"]) == key[:2]]
        times = {way: sum(one["time_ns"] for one in here if one["way"] == way) for way in WAYS}
        steps = sum(one["steps"] for one in here if one["way"] == WAYS[0])
        saved = [f"{100 * (1 - times[way] / times[WAYS[0]]):.1f}" for way in WAYS[1:]]
        name = f"{key[1]:g} MB, link {key[2]}, host {key[3]} GB/s"
        parts.append(f"| {key[0]} | {name} | {steps} | " + " | ".join(saved) + " |")
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.exit(main())
