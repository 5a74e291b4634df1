"""Time of LLaPor's forecasts on one core, for two shapes and thinner variants.

``python -m benchmarks.llapor_cost`` times every gate's forecasts of all horizons, from the gate's tensors to
the last `Forecast`, and the network alone, and writes ``benchmarks/results/llapor_cost.csv`` and ``.md``.
Untrained networks take as long as trained ones. Exit code 1 when a shape is above its limit at 32 rows.
"""

from __future__ import annotations

import argparse
import csv
import platform
import sys
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import perf_counter_ns

import numpy as np
import torch

from prescope.predictor.llapor import LlaporModel, LlaporSettings
from prescope.predictor.llapor.basis import Basis
from prescope.predictor.llapor.cost import ROWS, prediction_times
from prescope.predictor.llapor.model import ModelFacts, make_network
from prescope.predictor.split import SequenceSplit

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


def network_ns(model: LlaporModel, source: int, rows: int, repeats: int) -> int:
    """Median time of a network alone."""
    network = model.networks[source]
    block = torch.randn(rows, network.enter.shape[1])
    taken = []
    with torch.inference_mode():
        for _ in range(repeats + 3):
            began = perf_counter_ns()
            network(block)
            taken.append(perf_counter_ns() - began)
    return round(median(taken[3:]))


def main() -> int:
    """Measure, write both files, and say whether the limits hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=200, help="Steps timed; the median is taken.")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows: list[dict[str, object]] = []
    for shape, facts in SHAPES.items():
        for name, settings in variants().items():
            model = untrained(facts, settings)
            times = prediction_times(model, repeats=options.repeats)
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
        f"One core ({machine}), microseconds for all horizons of a gate: mean over gates (largest). "
        "Made by `python -m benchmarks.llapor_cost`.",
        "",
        "| shape | variant | 1 row | 32 rows | network alone, 32 rows | limit |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    held = True
    for shape in SHAPES:
        for name in variants():
            cells = []
            for batch, column in ((1, "forecasts_ns"), (32, "forecasts_ns"), (32, "network_ns")):
                found = [
                    int(row[column])  # type: ignore[call-overload]
                    for row in rows
                    if (row["shape"], row["variant"], row["rows"]) == (shape, name, batch)
                    and row["source"] != -1
                ]
                cells.append(f"{np.mean(found) / 1e3:.0f} ({max(found) / 1e3:.0f})")
                if name == "full" and (batch, column) == (32, "forecasts_ns"):
                    held &= max(found) <= LIMITS_NS[shape]
            limit = f"{LIMITS_NS[shape] / 1e3:.0f}" if name == "full" else ""
            lines.append(f"| {shape} | {name} | {' | '.join(cells)} | {limit} |")
    lines += ["", f"Within the limits at 32 rows: {'yes' if held else 'no'}."]
    return "\n".join(lines) + "\n", held


if __name__ == "__main__":
    sys.exit(main())
