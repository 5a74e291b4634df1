"""LLaPor trained on code and met by documentation: what that costs and what tuning while running brings back.

``python -m benchmarks.llapor_shift`` trains on the code of the files that the tiny model was trained on,
without docstrings and comments, and scores on held-out files: their code, and their docstrings, with the
networks as trained and tuned while running (synchronously, so that the result is the same every time).
Writes ``benchmarks/results/llapor_shift.csv`` and ``.md``.
"""

from __future__ import annotations

import argparse
import ast
import csv
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from benchmarks.llapor_tiny import cached, mean, rows_of, scores, trained
from prescope.instances import RoutingTrace, decode_batches
from prescope.predictor import replay
from prescope.predictor.llapor import Llapor, LlaporModel
from prescope.predictor.llapor.tuning import Tuner, TuningSettings
from prescope.tiny import load_tiny, tiny_model_path
from prescope.tiny._batches import encode_files, sequences
from prescope.tiny._checkpoint import read_provenance
from prescope.tiny._corpus import SourceFile, load_corpus
from prescope.tiny._stream_trace import stream_trace

RESULTS = Path(__file__).parent / "results"
LENGTH, BATCH = 256, 8
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_of(text: str) -> str:
    """A file without docstrings and comments."""
    tree = parsed(text)
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


def documentation_of(text: str) -> str:
    """A file's docstrings, one after another."""
    nodes = [node for node in ast.walk(parsed(text)) if isinstance(node, _DOCUMENTED)]
    return "\n\n".join(found for node in nodes if (found := ast.get_docstring(node)))


def parsed(text: str) -> ast.Module:
    """The file's syntax tree; an empty one where it is for another Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError):
        return ast.Module(body=[], type_ignores=[])


def trace_of(part: Callable[[str], str], *, heldout: bool, streams: int, source: str) -> RoutingTrace:
    """Streams of one part of the files."""
    recipe = read_provenance(tiny_model_path())["recipe"]
    corpus = load_corpus(
        heldout_fraction=recipe["heldout_fraction"],
        split_seed=recipe["split_seed"],
        train_bytes=recipe["train_bytes"],
    )
    rng = np.random.default_rng(0)
    files = list(corpus.heldout if heldout else corpus.train)
    if not heldout:
        files = [files[at] for at in rng.permutation(len(files))[: len(corpus.heldout) * 4]]
    texts = [SourceFile(name=file.name, text=found) for file in files if (found := part(file.text)).strip()]
    model, tokenizer = load_tiny()
    rows = sequences(encode_files(tokenizer, texts), length=LENGTH, rng=rng)
    return stream_trace(model, rows[rng.permutation(len(rows))[:streams]], source=source)


def main() -> None:
    """Train, score with and without tuning, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("build/llapor_shift"), help="Where parts are kept.")
    parser.add_argument("--streams", type=int, default=160, help="Training streams of 256 tokens.")
    parser.add_argument(
        "--choose", action="store_true", help="Compare tuning settings on documentation of training files."
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.work.mkdir(parents=True, exist_ok=True)

    def trace(name: str, part: Callable[[str], str], *, heldout: bool, streams: int) -> RoutingTrace:
        return cached(
            options.work / f"{name}.npz",
            lambda: trace_of(
                part, heldout=heldout, streams=streams, source=f"{name} of the standard library"
            ),
        )

    model = trained(
        options.work / "checkpoint", trace("training code", code_of, heldout=False, streams=options.streams)
    )
    if options.choose:
        choose(model, trace("training documentation", documentation_of, heldout=False, streams=24))
        return
    rows: list[dict[str, object]] = []
    notes = []
    for name, part in (("code", code_of), ("documentation", documentation_of)):
        test = trace(f"held-out {name}", part, heldout=True, streams=48)
        for error in (None, 0.10, 0.05) if name == "documentation" else (None, 0.10):
            tuner = None
            if error is not None:
                tuner = Tuner(model, TuningSettings(error=error), synchronous=True)
            found = scores(Llapor(model, tuner=tuner), model, test, BATCH)
            how = "as trained" if error is None else f"tuned from {error:.0%} error"
            rows += rows_of(f"{name}, {how}", BATCH, found)
            if tuner is not None:
                notes.append(f"{name}, {how}: {tuner.rounds} rounds over all networks, {test.tokens} tokens")
    with (RESULTS / "llapor_shift.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    text = report(rows, notes)
    (RESULTS / "llapor_shift.md").write_text(text)
    print(text)


def choose(model: LlaporModel, trace: RoutingTrace) -> None:
    """Recall of two gates under tuning settings, on text whose files are not judged; writes a table."""
    lines = [
        "# Tuning settings of LLaPor",
        "",
        f"Trained on code, met by documentation of training files ({trace.tokens} tokens, {BATCH} streams at "
        "once): recall over all horizons, and the mean squared error of the probabilities, which "
        "decides. Made by `python -m benchmarks.llapor_shift --choose`.",
        "",
        "| learning rate | iterations | error that starts it | gate 0 | gate 3 | squared error | rounds |",
        "|" + " --- |" * 7,
    ]
    base = TuningSettings()
    for rate, iterations, error in (
        (0.0, 0, 1.0), (2e-4, 8, 0.1), (5e-4, 8, 0.1), (1e-3, 8, 0.1), (2e-3, 8, 0.1),
    ):  # fmt: skip
        settings = replace(base, rate=rate, iterations=iterations, error=error) if iterations else None
        tuner = None if settings is None else Tuner(model, settings, synchronous=True)
        found = judged(Llapor(model, tuner=tuner), trace, (0, 3))
        cells = [f"{rate:g}", str(iterations), f"{error:g}", *(f"{value:.4f}" for value in found)]
        lines.append(f"| {' | '.join(cells)} | {0 if tuner is None else tuner.rounds} |")
        print(lines[-1], flush=True)
    (RESULTS / "llapor_tuning.md").write_text("\n".join(lines) + "\n")


def judged(predictor: Llapor, trace: RoutingTrace, gates: tuple[int, ...]) -> list[float]:
    """Top-k recall of the forecasts after each of these gates, and the squared error of all of them."""
    hits, total, errors = dict.fromkeys(gates, 0), dict.fromkeys(gates, 0), []
    top_k = trace.meta.top_k
    for step, layer in replay(predictor, trace, decode_batches(trace, BATCH)):
        if layer not in gates:
            continue
        for horizon in range(1, trace.layers - layer):
            said = predictor.predict_tokens(layer, horizon)
            named = said.argsort(axis=1)[:, -top_k:]
            truth = trace.topk_ids[step.rows, layer + horizon]
            hits[layer] += int((named[:, :, None] == truth[:, None, :]).sum())
            total[layer] += truth.size
            happened = np.zeros(said.shape)
            np.put_along_axis(happened, truth.astype(np.int64), 1.0, axis=1)
            errors.append(np.square(said - happened).mean())
    return [*(hits[gate] / total[gate] for gate in gates), float(np.mean(errors))]


def report(rows: list[dict[str, object]], notes: list[str]) -> str:
    """The table as markdown."""
    lines = [
        "# LLaPor under a shift of domain",
        "",
        "Trained on code without docstrings and comments, scored on held-out files, "
        f"{BATCH} streams at once. Means over gates and the horizons 1 to 7. "
        "Made by `python -m benchmarks.llapor_shift`.",
        "",
        "| text, networks | recall h = 1 | 2 | 3 | 4 | Brier skill | token ECE | event error | count error |",
        "|" + " --- |" * 9,
    ]
    for name in dict.fromkeys(str(row["predictor"]) for row in rows):
        cells = [f"{mean(rows, 'recall', predictor=name, horizon=horizon):.3f}" for horizon in range(1, 5)]
        for column in ("brier_skill", "calibration_error", "event_error", "count_error"):
            cells.append(f"{mean(rows, column, predictor=name):.3f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", *(f"- Tuning on {note}." for note in notes)]) + "\n"


if __name__ == "__main__":
    main()
