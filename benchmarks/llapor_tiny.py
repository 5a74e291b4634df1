"""LLaPor on the tiny model: recall, skill and calibration on files that nobody was trained on.

``python -m benchmarks.llapor_tiny`` trains what is missing in the work folder, scores it, and writes
``benchmarks/results/llapor_tiny.csv`` and ``llapor_tiny.md``. Parts that are there already are used again.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

import prescope.tiny
from benchmarks.llapor_reference import HORIZONS, reference_recall
from prescope.instances import RoutingTrace, read_trace, write_trace
from prescope.models import open_model
from prescope.predictor import Predictor, StaleGate
from prescope.predictor.evaluation import BatchScores, score
from prescope.predictor.llapor import Llapor, LlaporModel, LlaporSettings, load_llapor, save_llapor
from prescope.predictor.llapor.cost import prediction_times
from prescope.predictor.split import split_sequences
from prescope.runtime.plugin.moe_layers import moe_layers
from prescope.runtime.plugin.stale_router import StaleRouter
from prescope.tiny._stream_trace import heldout_trace, training_trace
from prescope.training import train_llapor_into

RESULTS = Path(__file__).parent / "results"
SHIPPED = Path(prescope.tiny.__file__).parent / "data" / "tiny-llapor"
BATCHES = (8, 32)


def cached(path: Path, make: object) -> RoutingTrace:
    """A trace from a file, made and written when it is not there."""
    if not path.exists():
        write_trace(path, make())  # type: ignore[operator]
    return read_trace(path)


def trained(folder: Path, trace: RoutingTrace) -> LlaporModel:
    """The checkpoint in a folder, trained when it is not there."""
    if not (folder / "predictor.json").exists():
        began = time.monotonic()
        split = split_sequences(trace, validation=0.1, test=0.1)
        train_llapor_into(
            folder,
            trace,
            split,
            LlaporSettings(),
            workers=2,
            restart=False,
            progress=lambda epoch: print(
                f"... source {epoch.part} epoch {epoch.epoch}: {epoch.loss:.3f}", flush=True
            ),
        )
        print(f"trained in {time.monotonic() - began:.0f} s", flush=True)
    return load_llapor(folder)


def stale_gate(model: LlaporModel) -> StaleGate:
    """The stale gate of the tiny model."""
    facts = model.facts
    return StaleGate(
        layers=facts.layers,
        experts=facts.experts,
        top_k=facts.top_k,
        router=StaleRouter(moe_layers(open_model("tiny")[0])),
        prior=model.prior,
    )


def scores(predictor: Predictor, model: LlaporModel, test: RoutingTrace, batch: int) -> BatchScores:
    """A predictor on the held-out streams, ``batch`` at once."""
    return score(
        predictor,
        test,
        range(test.sequences),
        batch=batch,
        horizons=8,
        reference=model.prior.astype(np.float64),
        max_steps=300,
    )


def rows_of(name: str, batch: int, found: BatchScores) -> list[dict[str, object]]:
    """One row per source and horizon."""
    rows = []
    for (source, horizon), tally in found.tokens.items():
        events = found.batches[source, horizon]
        rows.append(
            {
                "predictor": name,
                "batch": batch,
                "source": source,
                "horizon": horizon,
                "recall": round(tally.recall or 0.0, 4),
                "recall_within_2k": round(tally.wide_recall or 0.0, 4),
                "brier_skill": round(tally.brier_skill or 0.0, 4),
                "calibration_error": round(tally.calibration_error or 0.0, 4),
                "event_error": round(events.event_error or 0.0, 4),
                "count_error": round(events.soft_count_error or 0.0, 4),
                "four_in_six": round(events.four_in_six or 0.0, 4),
            }
        )
    return rows


def mean(rows: list[dict[str, object]], column: str, **wanted: object) -> float:
    """Mean over gates (sources from 0 on) of a column."""
    found = [
        float(row[column])  # type: ignore[arg-type]
        for row in rows
        if int(row["source"]) >= 0 and all(row[key] == value for key, value in wanted.items())  # type: ignore[call-overload]
    ]
    return float(np.mean(found)) if found else float("nan")


def report(rows: list[dict[str, object]], reference: np.ndarray, tokens: int, model: LlaporModel) -> str:
    """The tables as markdown."""
    big = BATCHES[-1]
    lines = [
        "# LLaPor on the tiny model",
        "",
        f"{tokens} tokens of held-out files (streams of 256, {big} or {BATCHES[0]} at once, as if decoded); "
        "made by `python -m benchmarks.llapor_tiny`. Means are over the gates that reach so far.",
        "",
        "| recall of the chosen experts | h = 1 | 2 | 3 | 4 | 5 | 6 | 7 |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]

    def line(name: str, values: list[float]) -> None:
        lines.append(f"| {name} | " + " | ".join("" if np.isnan(v) else f"{v:.3f}" for v in values) + " |")

    for name in ("llapor", "stale gate"):
        line(name, [mean(rows, "recall", predictor=name, batch=big, horizon=h) for h in range(1, 8)])
    line("small network (reference)", [*np.nanmean(reference, axis=0), *[np.nan] * (7 - HORIZONS)])
    gains = [
        mean(rows, "recall", predictor="llapor", batch=big, horizon=h) - np.nanmean(reference[:, h - 1])
        for h in range(1, HORIZONS + 1)
    ]
    mine = [row for row in rows if row["predictor"] == "llapor"]
    stale = {
        (row["source"], row["horizon"]): float(row["recall"])  # type: ignore[arg-type]
        for row in rows
        if row["predictor"] == "stale gate" and row["batch"] == big
    }
    margins = [
        float(row["recall"]) - stale[row["source"], row["horizon"]]  # type: ignore[arg-type, index]
        for row in mine
        if row["batch"] == big and int(row["source"]) >= 0  # type: ignore[call-overload]
    ]
    lines += [
        "",
        f"- Gain over the small network at h = 1..4: {', '.join(f'{gain:+.3f}' for gain in gains)}.",
        f"- Gain over the stale gate: {min(margins):+.3f} at the worst layer and horizon.",
        f"- Brier skill over popularity: {min(float(row['brier_skill']) for row in mine):.3f} at the worst.",  # type: ignore[arg-type]
    ]
    for batch in BATCHES:
        errors = [float(row["event_error"]) for row in mine if row["batch"] == batch]  # type: ignore[arg-type]
        lines.append(
            f"- Batch event, B = {batch}: calibration error {np.mean(errors):.3f} on average, "
            f"{max(errors):.3f} at the worst layer and horizon."
        )
    lines += [
        "",
        "| source | group | h | recall | stale | Brier skill | ECE | event 8 | event 32 |",
        "|" + " --- |" * 9,
    ]
    for row in mine:
        if row["batch"] != big:
            continue
        source, horizon = int(row["source"]), int(row["horizon"])  # type: ignore[call-overload]
        event = {
            r["batch"]: r["event_error"] for r in mine if (r["source"], r["horizon"]) == (source, horizon)
        }
        other = stale.get((source, horizon)) if source >= 0 else None
        cells = [
            "start" if source < 0 else str(source),
            model.groups[source + 1],
            str(horizon),
            f"{row['recall']:.3f}",
            "" if other is None else f"{other:.3f}",
            f"{row['brier_skill']:.3f}",
            f"{row['calibration_error']:.3f}",
            *(f"{event[batch]:.3f}" for batch in BATCHES),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Train, score, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("build/llapor_tiny"), help="Where parts are kept.")
    parser.add_argument("--streams", type=int, default=400, help="Training streams of 256 tokens.")
    parser.add_argument("--heldout", type=int, default=72, help="Held-out streams of 256 tokens.")
    parser.add_argument(
        "--ship", action="store_true", help="Write the checkpoint into the package, with times measured anew."
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.work.mkdir(parents=True, exist_ok=True)
    train = cached(options.work / "train.npz", lambda: training_trace(streams=options.streams))
    test = cached(options.work / "test.npz", lambda: heldout_trace(streams=options.heldout))
    model = trained(options.work / "checkpoint", train)
    if options.ship:
        model = replace(model, cost_ns=prediction_times(model, repeats=300))
        save_llapor(SHIPPED, model, notes=f"trained on: {train.meta.source}", compact=True)
        # What is scored is what is shipped.
        model = load_llapor(SHIPPED)
    small = options.work / "reference.json"
    if not small.exists():
        split = split_sequences(train, validation=0.1, test=0.1)
        small.write_text(json.dumps(reference_recall(train, split, test).tolist()))
    reference = np.array(json.loads(small.read_text()), dtype=np.float64)
    rows: list[dict[str, object]] = []
    for batch in BATCHES:
        rows += rows_of("llapor", batch, scores(Llapor(model), model, test, batch))
    rows += rows_of("stale gate", BATCHES[-1], scores(stale_gate(model), model, test, BATCHES[-1]))
    with (RESULTS / "llapor_tiny.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    text = report(rows, reference, test.tokens, model)
    (RESULTS / "llapor_tiny.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
