"""``prescope evaluate``: how good a predictor is, and what it is worth to a planner."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from prescope.evaluation import Evaluation
    from prescope.instances import RoutingTrace


def evaluate(
    predictor: Annotated[
        str, typer.Argument(help="A checkpoint folder of `prescope train`, or the name of a predictor.")
    ],
    trace: Annotated[Path, typer.Argument(help="Recorded routing (.npz); `prescope record` makes it.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for evaluation.json, evaluation.md and the plots."),
    ] = None,
    horizons: Annotated[int, typer.Option(min=1, help="Layers ahead.")] = 6,
    batches: Annotated[str, typer.Option(help="Sequences stepped together, comma-separated.")] = "8,32",
    steps: Annotated[int, typer.Option(min=1, help="Decode steps judged per batch size at most.")] = 150,
    baselines: Annotated[
        str | None, typer.Option(help="Predictors beside, comma-separated; by default all, '' for none.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="The recorded model ('tiny' or a folder), for the stale gate."),
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="Costs to plan with, 'model@machine'; by default those of the model.")
    ] = None,
    plan_steps: Annotated[int, typer.Option(min=0, help="Steps planned per batch size; 0 for none.")] = 12,
    charge: Annotated[
        bool, typer.Option("--charge", help="Charge the predictor's measured time to the host when planning.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of the split, where the predictor has none.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON (docs/json.md).")] = False,
) -> None:
    """Judge a predictor beside the baselines, on sequences that none was trained on."""
    from prescope.commands.output import console, print_json, print_table
    from prescope.evaluation import BASELINES, EvaluateSettings, evaluate_predictor
    from prescope.evaluation.document import evaluation_document
    from prescope.instances import read_trace
    from prescope.models import open_model
    from prescope.report.prediction import (
        heading,
        left_out,
        plan_heading,
        prediction_sections,
        prediction_table,
    )

    recorded = read_trace(trace)
    chosen = BASELINES if baselines is None else tuple(name for name in baselines.split(",") if name)
    settings = EvaluateSettings(
        horizons=horizons,
        batches=_numbers(batches),
        max_steps=steps,
        baselines=chosen,
        preset=preset or _preset_of(recorded),
        plan_steps=plan_steps,
        charge=charge,
        seed=seed,
    )
    found = evaluate_predictor(
        predictor,
        recorded,
        settings,
        model=None if model is None else open_model(model)[0],
        progress=_progress(),
    )
    document = {"trace": str(trace), **evaluation_document(found), "output": None}
    notes = []
    if output is not None:
        document["output"] = str(output)
        notes = _write(output, found, document)
    if as_json:
        print_json(document)
        return
    out = console()
    out.print(heading(found), markup=False)
    for line in [*([found.warning] if found.warning else []), *left_out(found)]:
        out.print(line, style="yellow", markup=False)
    if found.plans:
        out.print(plan_heading(found), markup=False)
    for title, columns, rows in prediction_sections(found):
        out.print(f"\n{title}", style="bold", markup=False)
        # Numbers cut short would be other numbers.
        print_table(prediction_table(columns, rows))
    for note in notes:
        out.print(note, markup=False, soft_wrap=True)


def _numbers(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) for part in parts):
        raise ValueError(f"expected --batches as numbers of at least 1, for example 8,32, got {text!r}")
    return tuple(dict.fromkeys(map(int, parts)))


def _preset_of(trace: RoutingTrace) -> str:
    """Costs of the recorded model where they are published, else of the one that the tiny model imitates."""
    from prescope.formulation.presets import model_names

    name = trace.meta.model.lower()
    known = next((one for one in model_names() if one in name), "qwen3-30b-a3b")
    return f"{known}@a100-pcie4"


def _progress() -> Any:
    from time import monotonic

    from prescope.commands.output import progress_console

    stderr = progress_console()
    last = (float("-inf"), "")

    def progress(what: str, done: int, total: int) -> None:
        # A line when something new begins, then every few seconds.
        nonlocal last
        now = monotonic()
        if what != last[1] or now - last[0] > 5:
            last = now, what
            stderr.print(f"... {what}" + (f": step {done} of {total}" if total > 1 else ""), style="dim")

    return progress


def _write(folder: Path, found: Evaluation, document: dict[str, Any]) -> list[str]:
    """Write the files; returns what to tell."""
    import json

    from prescope.instances._atomic import atomic_file
    from prescope.report.prediction import prediction_markdown

    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        "evaluation.json": json.dumps(document, indent=1, allow_nan=False) + "\n",
        "evaluation.md": "# Evaluation\n\n" + prediction_markdown(found),
    }
    for name, text in texts.items():
        with atomic_file(folder / name) as stream:
            stream.write(text.encode())
    return [f"written: {folder}/evaluation.json, evaluation.md", _draw(folder, found)]


def _draw(folder: Path, found: Evaluation) -> str:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return "no plots: they need matplotlib (pip install 'prescope[plot]')"
    from prescope.evaluation.cells import cells, summaries
    from prescope.instances._atomic import atomic_file
    from prescope.report.prediction_picture import draw_recall, draw_recall_by_horizon, draw_reliability

    judged = [one for one in found.predictors if one.missing is None]
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_recall(cells(judged[0].batches[0]), ax=left)
    left.set_title(judged[0].name)
    draw_recall_by_horizon([(one.name, summaries(one.batches[0])) for one in judged], ax=right)
    pictures = {"recall.png": figure}
    sizes = found.settings.batches
    figure = Figure(figsize=(5 * len(sizes), 4.8), layout="constrained")
    for index, (batch, ax) in enumerate(
        zip(sizes, figure.subplots(1, len(sizes), squeeze=False)[0], strict=True)
    ):
        rows = [(one.name, summaries(one.batches[index])[0].reliability) for one in judged]
        draw_reliability(rows, ax=ax)
        ax.set_title(f"batch {batch}, 1 ahead")
    pictures["reliability.png"] = figure
    for name, picture in pictures.items():
        with atomic_file(folder / name) as stream:
            picture.savefig(stream, format="png", dpi=120)
    return f"written: {folder}/{', '.join(pictures)}"
