"""What-if against real runs: experts on disk, three sizes of memory, predicted and then measured.

    python -m benchmarks.whatif_disk            # two to four minutes, 2 GB of disk
    python -m benchmarks.whatif_disk --quick    # a model of a tenth of the size, for trying out

A cut Qwen3-MoE of random weights is written, the machine measured for it (as `prescope profile` does), and
one run recorded with memory for 15 % of the experts: its routing, the predictor's recall, and the pace at
which dense parts and experts really went (`prescope.whatif.pace_of`), what passed outside of the engine's
steps, and the speed of reads with which its simulation takes as long as it did (`matching_pace`). From that
alone `prescope.whatif.simulate` says what 10, 25 and 50 % will do; then they are tried: same tokens, same
policy. Rows of ``benchmarks/results/whatif_disk.csv`` that are there already are kept, unless ``--fresh``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from dataclasses import replace
from datetime import date
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from benchmarks.csv_lines import read_lines, write_lines
from benchmarks.disk_routing import Array
from benchmarks.disk_speed import rail_gb_s
from prescope.formulation import CostModel, Tier
from prescope.whatif import Machine, Point, costs_at_pace, matching_pace, pace_of, simulate

FIELDS = (
    "batch", "memory_percent", "round", "steps", "predicted_tokens_per_s", "by_profile_tokens_per_s",
    "engine_planned_tokens_per_s",
    "measured_tokens_per_s", "deviation", "predicted_p99_ms", "measured_p99_ms", "recall",
    "pace_dense", "pace_gpu", "pace_copy", "outside_ms", "profiled_gb_s", "rail_gb_s",
)  # fmt: skip
NOW, PERCENTS = 15, (10, 25, 50)
# Steps that count and steps before them, per batch.
STEPS = {1: (72, 24), 4: (40, 12)}
# What `simulate` imagines of experts on disk.
LOOKAHEAD = 2
OPTIONS = {"policy": "expected", "residency": "moving-average", "lookahead": LOOKAHEAD}


def main() -> int:
    """Prepare, predict, measure, write; 1 when a prediction is off by more than a tenth."""
    options = parser().parse_args()
    began = monotonic()

    def say(text: str) -> None:
        print(f"[{monotonic() - began:6.1f} s] {text}", file=sys.stderr, flush=True)

    work = options.work or Path(tempfile.gettempdir()) / "prescope-whatif-disk"
    work.mkdir(parents=True, exist_ok=True)
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / ("whatif_disk_quick.csv" if options.quick else "whatif_disk.csv")
    lines = read_lines(path, fresh=options.fresh)
    try:
        for line in new_lines(work, options, lines, say):
            lines.append(line)
            write_lines(path, lines, FIELDS)
    finally:
        if not options.keep:
            shutil.rmtree(work, ignore_errors=True)
    path.with_suffix(".md").write_text(markdown(lines), encoding="utf-8")
    worst = max(abs(float(line["deviation"])) for line in lines)
    say(f"largest deviation {worst:.1%}")
    return int(worst > 0.10)


def parser() -> argparse.ArgumentParser:
    """Options; the defaults make the published table."""
    parsed = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parsed.add_argument("--quick", action="store_true", help="a small model and rough costs")
    parsed.add_argument("--work", type=Path, help="folder for the model; default: below the temporary folder")
    parsed.add_argument("--keep", action="store_true", help="keep the model and its costs")
    parsed.add_argument("--fresh", action="store_true", help="forget earlier rows")
    parsed.add_argument("--batches", nargs="+", type=int, choices=sorted(STEPS), default=sorted(STEPS))
    parsed.add_argument("--rounds", type=int, default=1)
    parsed.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    return parsed


def new_lines(work: Path, options: Any, lines: list[dict[str, Any]], say: Any) -> Any:
    """Predict and measure every cell that is not there yet."""
    wanted = [
        (round_number, batch, percent)
        for round_number in range(options.rounds)
        for batch in options.batches
        for percent in PERCENTS
    ]
    known = {(int(line["round"]), int(line["batch"]), int(line["memory_percent"])) for line in lines}
    missing = [cell for cell in wanted if cell not in known]
    if not missing:
        say("all rows are there")
        return
    import torch

    from benchmarks.disk_prepare import costs_of
    from prescope.runtime.plugin.load import load

    folder = model_folder(work, quick=options.quick, say=say)
    costs = costs_of(folder, work / f"{folder.name}-costs.json", say, quick=options.quick)
    torch.set_num_threads(costs.provenance.threads or 1)
    loaded = load(folder, "1GiB", costs=costs)
    loaded.engine.detach()
    try:
        for round_number, batch in dict.fromkeys(cell[:2] for cell in missing):
            base = Base(loaded, costs, batch, say)
            for percent in [cell[2] for cell in missing if cell[:2] == (round_number, batch)]:
                yield base.line(percent, round_number)
    finally:
        loaded.close()


def model_folder(work: Path, *, quick: bool, say: Any) -> Path:
    """The model, written unless it is there."""
    from benchmarks.disk_model import config_of, write_model

    folder = work / ("whatif-quick" if quick else "whatif")
    if not folder.exists():
        say("writing the model")
        config = config_of("qwen3_moe", layers=6, experts=32, top_k=4, expert_size=96 if quick else None)
        write_model(folder, config, shard_bytes=10**9, std=0.02, seed=0, quiet=True)
    return folder


class Base:
    """The recorded run: routing, the predictor's recall, and how fast everything really was.

    Parameters
    ----------
    loaded
        Of `prescope.runtime.plugin.load`, detached.
    costs
        Measured.
    batch
        Streams stepped together.
    say
        Told what is done.
    """

    def __init__(self, loaded: Any, costs: Any, batch: int, say: Any) -> None:
        from benchmarks.disk_prepare import groups_of, streams

        self._model, self._store, self._costs = loaded.model, loaded.store, costs
        self._batch, self._say = batch, say
        self._steps, self._warm = STEPS[batch]
        self._groups = groups_of(streams(), batch, self._steps + self._warm)
        # The engine's own guess where nobody tells it the popularity.
        self._shares = np.full((self._store.layers, self._store.experts), 4 / self._store.experts)
        say(f"batch {batch}: the run that is recorded")
        self._predictor = Remembering(self._model, self._shares)
        times, self._counts, records = self._run(self._store.size_bytes * NOW // 100)
        self._recall = recall_of(self._predictor.said, self._counts)
        executed = [(record.instance, record.trace.schedule) for record in records[self._warm :]]
        pace = pace_of(executed)
        # What copies wait for beside the link is in no duration of theirs: a slower link stands for it.
        makespans = [schedule.makespan_ns for _, schedule in executed]
        self._pace = replace(
            pace,
            copy=matching_pace(
                lambda copy: float(
                    self._simulated(NOW, costs_at_pace(costs.costs, replace(pace, copy=copy))).mean()
                ),
                float(np.mean(makespans)),
            ),
        )
        self._costs_as_run = costs_at_pace(costs.costs, self._pace)
        # The embedding and the head are outside of what the engine plans.
        self._outside_ns = max(0.0, float(np.mean(times)) - float(np.mean(makespans)))
        again = self._simulated(NOW, self._costs_as_run) + self._outside_ns
        say(
            f"batch {batch}: recall {self._recall:.3f}, {self._pace}, {self._outside_ns / 1e6:.1f} ms "
            f"outside; a step takes {np.mean(times) / 1e6:.1f} ms, simulated {again.mean() / 1e6:.1f} ms"
        )

    def line(self, percent: int, round_number: int) -> dict[str, Any]:
        """Predict a memory, then measure it."""
        budget = self._store.size_bytes * percent // 100
        predicted = self._simulated(percent, self._costs_as_run) + self._outside_ns
        profiled = self._simulated(percent, self._costs.costs)
        speed = rail_gb_s(self._store)
        times, _, records = self._run(budget)
        measured = np.array(times)
        planned = np.array([record.planned.makespan_ns for record in records[self._warm :]])

        def tokens_per_s(times: Array) -> float:
            return self._batch * len(times) / (float(times.sum()) / 1e9)

        deviation = tokens_per_s(predicted) / tokens_per_s(measured) - 1
        self._say(
            f"batch {self._batch}, {percent} %: predicted {tokens_per_s(predicted):.3f} tokens/s, "
            f"measured {tokens_per_s(measured):.3f} ({deviation:+.1%})"
        )
        copy_ns = self._costs.costs.copy_ns(0)
        values = (
            self._batch, percent, round_number, len(measured), round(tokens_per_s(predicted), 4),
            round(tokens_per_s(profiled), 4), round(tokens_per_s(planned), 4),
            round(tokens_per_s(measured), 4), round(deviation, 4),
            *(round(float(np.percentile(times, 99)) / 1e6, 2) for times in (predicted, measured)),
            round(self._recall, 3),
            *(round(value, 3) for value in (self._pace.dense, self._pace.gpu, self._pace.copy)),
            round(self._outside_ns / 1e6, 2),
            round(self._store.row_bytes(0) / copy_ns, 3), round(speed, 3),
        )  # fmt: skip
        return dict(zip(FIELDS, values, strict=True))

    def _run(self, budget_bytes: int) -> tuple[list[int], Array, Any]:
        """Times of the steps that count; the true tokens and records of all."""
        from benchmarks.disk_steps import run_steps
        from prescope.runtime.plugin import attach

        with attach(
            self._model, budget_bytes, costs=self._costs, predictor=self._predictor, record=True, **OPTIONS
        ) as engine:
            engine.keep_steps(self._steps + self._warm)
            times, _ = run_steps(self._model, self._groups, warm=self._warm)
            return times, np.array(engine.step_counts()), engine.records

    def _simulated(self, percent: int, costs: CostModel) -> Array:
        point = Point(
            memory_bytes=self._store.size_bytes * percent // 100,
            link_bytes_per_s=costs.link.bytes_per_s,
            batch=self._batch,
            recall=self._recall,
        )
        machine = Machine(name=costs.source, costs=costs, tier=Tier.DISK, host_computes=False)
        found = simulate(machine, point, self._counts, self._shares, lookahead=LOOKAHEAD)
        return found.times_ns[self._warm :]


class Remembering:
    """The plug-in's own predictor, and what it says of the next layer.

    Parameters
    ----------
    model
        Of `prescope.runtime.plugin.load`, detached.
    shares
        Popularity of the experts.
    """

    def __init__(self, model: Any, shares: Array) -> None:
        from prescope.runtime.plugin import moe_layers
        from prescope.runtime.plugin.request import resolve_predictor

        self._inner = resolve_predictor(None, moe_layers(model), shares)
        self.said: list[dict[int, Array]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def begin_step(self, *arguments: Any, **options: Any) -> None:
        """A new step."""
        self.said.append({})
        self._inner.begin_step(*arguments, **options)

    def predict(self, layer: int, horizon: int) -> Any:
        """Ask, and remember the answer for the next layer."""
        answer = self._inner.predict(layer, horizon)
        if horizon == 1 and self.said:
            self.said[-1][layer + 1] = np.array(answer.probability)
        return answer


def recall_of(said: list[dict[int, Array]], counts: Array) -> float:
    """Share of the needed experts that are among as many most probable ones, one layer ahead."""
    hit = needed = 0
    for step, layers in zip(counts, said, strict=True):
        for layer, probability in layers.items():
            # Before the step nobody knows its tokens.
            if layer == 0:
                continue
            wanted = np.flatnonzero(step[layer])
            named = np.argsort(-probability, kind="stable")[: len(wanted)]
            hit += len(set(wanted.tolist()) & set(named.tolist()))
            needed += len(wanted)
    return hit / needed


def markdown(lines: list[dict[str, Any]]) -> str:
    """The table for people."""
    parts = [
        "# What-if against real disk-tier runs\n",
        "Made by `python -m benchmarks.whatif_disk` (do not edit). *Predicted*: simulated over the routing "
        f"and at the pace of one recorded run with {NOW} % of the experts in memory; *by profile*: by the "
        "profiled costs alone, beside what the engine itself planned with them in the real run; *measured*: "
        "wall clock of the real run. Pace: real over profiled time of the recorded run.\n",
        f"{date.today().isoformat()}, {len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f} at "
        "the end.\n",
        "| batch | memory % | predicted tokens/s | by profile | engine planned | measured | deviation "
        "| p99 ms, predicted | p99 ms, measured | recall | pace: dense | experts | reads "
        "| outside, ms | read GB/s, profiled | read GB/s, just before |",
        "| ---: " * 16 + "|",
    ]
    for line in lines:
        cells = [
            line["batch"], line["memory_percent"], line["predicted_tokens_per_s"],
            line["by_profile_tokens_per_s"], line["engine_planned_tokens_per_s"],
            line["measured_tokens_per_s"],
            f"{float(line['deviation']):+.1%}", line["predicted_p99_ms"], line["measured_p99_ms"],
            line["recall"], line["pace_dense"], line["pace_gpu"], line["pace_copy"],
            line["outside_ms"], line["profiled_gb_s"], line["rail_gb_s"],
        ]  # fmt: skip
        parts.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.exit(main())
