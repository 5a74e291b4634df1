"""Hyper-parameters of LLaPor compared on validation sequences.

``python -m benchmarks.llapor_tune`` trains two networks of every variant - of the first gate, which is near
the input, and of a middle gate - on a part of the training streams and writes the recall and the loss on
validation sequences to ``benchmarks/results/llapor_tune.csv`` and ``.md``. The test files are not touched.
Variants that are in the file already are not trained again. With ``--full`` those that `FULL` names are
compared on all training streams, in ``llapor_tune_full``: how much there is may decide which rate is best.
"""

from __future__ import annotations

import argparse
import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from benchmarks.llapor_tiny import cached
from prescope.predictor.llapor import GroupSettings, LlaporSettings
from prescope.predictor.llapor.basis import fit_basis
from prescope.predictor.llapor.features import chosen
from prescope.predictor.llapor.model import ModelFacts, make_network
from prescope.predictor.llapor.rows import SourceData, histories, trace_rows
from prescope.predictor.llapor.train_source import train_source, validation_loss
from prescope.predictor.split import split_sequences
from prescope.tiny._stream_trace import training_trace

RESULTS = Path(__file__).parent / "results"
SOURCES = {1: "near-input", 4: "middle"}
FULL = (
    "gated",
    "gated, seed 1",
    "gated, rate 2e-3",
    "gated, rate 8e-3",
    "gated, rate 8e-3, seed 1",
    "gated, rate 16e-3",
    "gated, dropout 0.1",
    "shallow",
    "shallow, rate 8e-3",
)


def variants() -> dict[str, LlaporSettings]:
    """One change at a time from the settings in the code; the networks of both sources are of one kind."""
    base = LlaporSettings()
    shallow, gated = base.outer, base.middle

    def both(group: GroupSettings) -> LlaporSettings:
        return replace(base, outer=group, middle=group)

    return {
        "shallow": both(shallow),
        "gated": both(gated),
        "shallow, balanced focal loss": both(replace(shallow, loss="balanced-focal")),
        "gated, balanced focal loss": both(replace(gated, loss="balanced-focal")),
        "gated, twice as wide": both(replace(gated, hidden=2 * gated.hidden)),
        "gated, half as wide": both(replace(gated, hidden=gated.hidden // 2)),
        "linear": both(replace(shallow, hidden=0)),
        "gated, dropout 0.1": both(replace(gated, dropout=0.1)),
        "gated, rate 2e-3": both(replace(gated, rate=2e-3)),
        "gated, rate 8e-3": both(replace(gated, rate=8e-3)),
        "gated, rate 16e-3": both(replace(gated, rate=16e-3)),
        "gated, seed 1": replace(both(gated), seed=1),
        "gated, rate 8e-3, seed 1": replace(both(replace(gated, rate=8e-3)), seed=1),
        "shallow, rate 8e-3": both(replace(shallow, rate=8e-3)),
        "gated, weight decay 1e-2": both(replace(gated, weight_decay=1e-2)),
        "gated, no history": replace(both(gated), history=0, trend=0),
        "gated, no trend": replace(both(gated), trend=0),
        "gated, 48 history components": replace(both(gated), history=48, trend=32),
        "gated, 64 components": replace(both(gated), components=64),
        "gated, decay 0.5": replace(both(gated), decay=0.5),
    }


def main() -> None:
    """Train what is missing and write both files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("build/llapor_tiny"), help="Where the trace is.")
    parser.add_argument("--streams", type=int, default=80, help="Streams used, of those in the trace.")
    parser.add_argument("--full", action="store_true", help="Some variants on all training streams.")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.work.mkdir(parents=True, exist_ok=True)
    trace = cached(options.work / "train.npz", lambda: training_trace(streams=400))
    path = RESULTS / ("llapor_tune_full.csv" if options.full else "llapor_tune.csv")
    rows = list(csv.DictReader(path.open())) if path.exists() else []
    wanted = FULL if options.full else tuple(variants())
    split = split_sequences(trace, validation=0.1, test=0.1)
    train = trace_rows(trace, split.train[: None if options.full else options.streams])
    judged = trace_rows(trace, split.validation)
    facts = ModelFacts(
        name=trace.meta.model,
        fingerprint=trace.meta.fingerprint,
        layers=trace.layers,
        experts=trace.meta.experts,
        top_k=trace.meta.top_k,
        hidden_size=train.hidden[0].shape[1],
    )
    for name, settings in variants().items():
        if any(row["variant"] == name for row in rows) or name not in wanted:
            continue
        basis = fit_basis(
            train.hidden,
            train.token_ids,
            components=settings.components,
            history=settings.history,
            trend=settings.trend,
        )
        past, judged_past = (histories(part, basis, decay=settings.decay) for part in (train, judged))
        basis.trend_scale.copy_(1.0 / past.trend.pow(2).mean(dim=0).sqrt().clamp_min(1e-3))
        found = []
        for source, group in SOURCES.items():
            network = make_network(facts, settings, basis, group, source, seed=source)  # type: ignore[arg-type]
            data = SourceData(judged, judged_past, basis, source=source, experts=facts.experts)
            train_source(
                network,
                SourceData(train, past, basis, source=source, experts=facts.experts),
                data,
                source=source,
                group=settings.middle if group == "middle" else settings.outer,
                settings=settings,
            )
            recall = recall_of(network, data, facts.top_k)
            found.append(
                {"variant": name, "source": source - 1, "loss": f"{validation_loss(network, data):.4f}"}
                | {f"recall_{h}": f"{recall[h - 1]:.4f}" for h in range(1, 5)}
            )
        rows += found
        with path.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        print(found, flush=True)
    path.with_suffix(".md").write_text(report(rows, len(train.lengths), " --full" if options.full else ""))


def recall_of(network: torch.nn.Module, data: SourceData, top_k: int) -> np.ndarray:
    """Recall per horizon."""
    hits = torch.zeros(network.horizons)
    with torch.no_grad():
        for at in torch.arange(len(data)).split(4096):
            named = network(data.features(at)).topk(top_k, dim=2).indices
            truth = chosen(data.target_ids(at, network.horizons), network.experts)
            hits += truth.gather(2, named).sum(dim=(0, 2))
    return (hits / (len(data) * top_k)).numpy()


def report(rows: list[dict[str, str]], streams: int, options: str) -> str:
    """The table as markdown."""
    lines = [
        "# Variants of LLaPor on validation sequences",
        "",
        f"Networks of the first gate and of gate 3 of the tiny model, trained on {streams} streams "
        "of 256 tokens; loss in nats per row and horizon. Made by "
        f"`python -m benchmarks.llapor_tune{options}`.",
        "",
        "| variant | gate 0: loss | recall h = 1 / 2 / 3 / 4 | gate 3: loss | recall h = 1 / 2 / 3 / 4 |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name in dict.fromkeys(row["variant"] for row in rows):
        cells = []
        for row in rows:
            if row["variant"] == name:
                cells += [row["loss"], " / ".join(row[f"recall_{h}"] for h in range(1, 5))]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
