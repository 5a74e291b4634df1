"""Time of LLaPor's forecasts on one core, for two shapes and thinner variants.

``python -m benchmarks.llapor_cost`` times every gate's forecasts of all horizons, from the gate's tensors to
the last `Forecast`, and the network alone, and writes ``benchmarks/results/llapor_cost.csv`` and ``.md``.
Untrained networks take as long as trained ones. Exit code 1 when a shape is above its limit at 32 rows.
"""

from __future__ import annotations

import argparse
import csv
import json
import platform
import sys
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import thread_time_ns

import numpy as np
import torch

from prescope.predictor.llapor import Llapor, LlaporModel, LlaporSettings, load_llapor, save_llapor
from prescope.predictor.llapor.basis import Basis
from prescope.predictor.llapor.cost import ROWS, prediction_times
from prescope.predictor.llapor.model import ModelFacts, make_network
from prescope.predictor.split import SequenceSplit
from prescope.tiny import tiny_llapor_path

RESULTS = Path(__file__).parent / "results"

# More layers than horizons would only repeat the same sizes.
SHAPES = {
    "tiny": ModelFacts(name="tiny", fingerprint="", layers=8, experts=32, top_k=4, hidden_size=128),
    "qwen3-30b-a3b": ModelFacts(
        name="qwen3", fingerprint="", layers=10, experts=128, top_k=8, hidden_size=2048
    ),
}
LIMITS_NS = {"tiny": 200_000, "qwen3-30b-a3b": 1_500_000}


def variants() -> dict[str, LlaporSettings]:
    """The settings that are used, and thinner ones."""
    full = LlaporSettings()
    half = {
        name: replace(getattr(full, name), hidden=getattr(full, name).hidden // 2)
        for name in ("outer", "middle")
    }
    linear = {name: replace(getattr(full, name), hidden=0) for name in ("outer", "middle")}
    return {
        "full": full,
        "no history": replace(full, history=0, trend=0),
        "64 components": replace(full, components=64),
        "no compression": replace(full, components=1 << 20),
        "4 horizons": replace(full, horizons=4),
        "half as wide": replace(full, **half),
        "linear": replace(full, **linear),
    }


def untrained(facts: ModelFacts, settings: LlaporSettings) -> LlaporModel:
    """A model of random numbers, gated in the middle."""
    generator = torch.Generator().manual_seed(0)
    layers, hidden = facts.layers, facts.hidden_size
    components = min(settings.components, hidden)
    basis = Basis(
        mean=torch.zeros(layers, hidden),
        project=torch.randn(layers, hidden, components, generator=generator) / hidden**0.5,
        recall=torch.randn(layers, hidden, settings.history, generator=generator) / hidden**0.5,
        trend_scale=torch.ones(settings.trend),
        tokens=torch.randn(1000, components, generator=generator),
    )
    edge = max(1, layers // 4)
    groups = ("near-input",) * edge + ("middle",) * (layers - 2 * edge) + ("near-output",) * edge
    networks = tuple(
        make_network(facts, settings, basis, group, source, seed=source).eval().requires_grad_(False)
        for source, group in enumerate(groups)
    )
    return LlaporModel(
        facts=facts,
        settings=settings,
        split=SequenceSplit(train=(0,), validation=(1,), test=(2,)),
        groups=groups,  # type: ignore[arg-type]
        basis=basis,
        networks=networks,
        correction=np.zeros((layers, settings.horizons, 2), dtype=np.float32),
        prior=np.full((layers, facts.experts), facts.top_k / facts.experts, dtype=np.float32),
    )


def arrays_ns(model: LlaporModel, rows: int, repeats: int) -> list[int]:
    """Median time of each gate from its tensors to the arrays of all horizons."""
    facts, predictor = model.facts, Llapor(model)
    hidden = torch.randn(rows, facts.hidden_size)
    ids = torch.rand(rows, facts.experts).argsort(dim=1)[:, : facts.top_k]
    weights = torch.full(ids.shape, 1.0 / facts.top_k)
    taken: list[list[int]] = [[] for _ in range(facts.layers)]
    for _ in range(repeats):
        predictor.begin_step(rows, sequences=np.arange(rows))
        for layer in range(facts.layers - 1):
            began = thread_time_ns()
            predictor.observe(layer, hidden, ids, weights)
            predictor.forecast_arrays(layer)
            taken[layer + 1].append(thread_time_ns() - began)
        predictor.observe(facts.layers - 1, hidden, ids, weights)
    return [round(median(times)) if times else 0 for times in taken]


def network_ns(model: LlaporModel, source: int, rows: int, repeats: int) -> int:
    """Median time of a network alone."""
    network = model.networks[source]
    block = torch.randn(rows, network.enter.shape[1])
    taken = []
    with torch.inference_mode():
        for _ in range(repeats + 3):
            began = thread_time_ns()
            network(block)
            taken.append(thread_time_ns() - began)
    return round(median(taken[3:]))


def measure_shipped(repeats: int) -> int:
    """Write the times of this machine into the checkpoint that comes with the tiny model."""
    folder = tiny_llapor_path()
    notes = json.loads((folder / "predictor.json").read_text())["notes"]
    model = load_llapor(folder)
    model = replace(model, cost_ns=prediction_times(model, repeats=repeats))
    save_llapor(folder, model, notes=notes, compact=True)
    print(f"{folder}: {model.cost_ns}")
    return 0


def main() -> int:
    """Measure, write both files, and say whether the limits hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=200, help="Steps timed; the median is taken.")
    parser.add_argument(
        "--shipped", action="store_true", help="Only measure the shipped predictor anew and write its times."
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.shipped:
        return measure_shipped(options.repeats)
    rows: list[dict[str, object]] = []
    for shape, facts in SHAPES.items():
        for name, settings in variants().items():
            model = untrained(facts, settings)
            times = prediction_times(model, repeats=options.repeats)
            arrays = {batch: arrays_ns(model, batch, options.repeats) for batch in ROWS}
            for source, pair in enumerate(times):
                rows += [
                    {
                        "shape": shape,
                        "variant": name,
                        "source": source - 1,
                        "group": model.groups[source],
                        "horizons": model.networks[source].horizons,
                        "rows": batch,
                        "forecasts_ns": value,
                        "arrays_ns": arrays[batch][source],
                        "network_ns": network_ns(model, source, batch, options.repeats),
                    }
                    for batch, value in zip(ROWS, pair, strict=True)
                ]
            print(f"{shape}, {name}: {max(many for _, many in times) / 1e3:.0f} us at 32 rows", flush=True)
    with (RESULTS / "llapor_cost.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    text, held = report(rows)
    (RESULTS / "llapor_cost.md").write_text(text)
    print(text)
    return 0 if held else 1


def report(rows: list[dict[str, object]]) -> tuple[str, bool]:
    """The table as markdown, and whether the limits hold."""
    machine = platform.processor() or platform.machine()
    lines = [
        "# Time of LLaPor's forecasts",
        "",
        f"Microseconds of one core ({machine}) for all horizons of a gate: mean over gates (largest). "
        "*Forecasts*: from the gate's tensors to the last horizon's `Forecast`; *arrays*: to expected tokens "
        "and calibrated probabilities of all horizons, which the limit is for; the network alone. "
        "Made by `python -m benchmarks.llapor_cost`.",
        "",
        "| shape | variant | forecasts, 1 row | forecasts, 32 | arrays, 32 | network, 32 | limit, 32 |",
        "|" + " --- |" * 7,
    ]
    held = True
    for shape in SHAPES:
        for name in variants():
            cells = []
            for batch, column in (
                (1, "forecasts_ns"),
                (32, "forecasts_ns"),
                (32, "arrays_ns"),
                (32, "network_ns"),
            ):
                found = [
                    int(row[column])  # type: ignore[call-overload]
                    for row in rows
                    if (row["shape"], row["variant"], row["rows"]) == (shape, name, batch)
                    and row["source"] != -1
                ]
                cells.append(f"{np.mean(found) / 1e3:.0f} ({max(found) / 1e3:.0f})")
                if name == "full" and (batch, column) == (32, "arrays_ns"):
                    held &= float(np.mean(found)) <= LIMITS_NS[shape]
            limit = f"{LIMITS_NS[shape] / 1e3:.0f}" if name == "full" else ""
            lines.append(f"| {shape} | {name} | {' | '.join(cells)} | {limit} |")
    lines += ["", f"The mean gate is within the limits at 32 rows: {'yes' if held else 'no'}."]
    return "\n".join(lines) + "\n", held


if __name__ == "__main__":
    sys.exit(main())
