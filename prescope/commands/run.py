"""``prescope run``: a model's text under several scheduling policies, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from prescope.compare import Comparison


def run(
    model: Annotated[
        str, typer.Argument(help="'tiny', or the folder of a saved transformers model.")
    ] = "tiny",
    prompts: Annotated[Path | None, typer.Option(help="Text file, one prompt a line.")] = None,
    other_prompts: Annotated[
        Path | None, typer.Option(help="Prompts that choose the residents; by default others than --prompts.")
    ] = None,
    policies: Annotated[
        str, typer.Option(help="Comma-separated.")
    ] = "on-demand,cpu-only,intra-layer,presched,dp",
    batch: Annotated[int, typer.Option(min=1, help="Prompts at once.")] = 8,
    tokens: Annotated[int, typer.Option(min=1, help="Tokens to generate for each.")] = 8,
    preset: Annotated[str, typer.Option(help="Whose costs: MODEL@MACHINE.")] = "qwen3-30b-a3b@a100-pcie4",
    backend: Annotated[str, typer.Option(help="cpu: executed in slow motion; sim: in virtual time.")] = "cpu",
    predictor: Annotated[
        str,
        typer.Option(
            help="Predictor of causal runs: a name, or KIND:FOLDER for a trained one; "
            "llapor alone is the one that comes with 'tiny'."
        ),
    ] = "stale-gate",
    retention: Annotated[
        str,
        typer.Option(
            help="Comma-separated rules by which residents change from step to step: static (nobody moves), "
            "moving-average, learned, learned:TRACE (fitted to recorded routing), lru, lfu."
        ),
    ] = "static",
    clairvoyant: Annotated[
        bool, typer.Option("--clairvoyant", help="Demand known from a recorded first pass.")
    ] = False,
    resident: Annotated[float, typer.Option(min=0, max=1, help="Share of resident experts.")] = 0.25,
    slots: Annotated[int, typer.Option(min=0, help="Buffers for copies.")] = 8,
    lookahead: Annotated[int | None, typer.Option(min=0, help="Layers ahead a copy may be issued.")] = None,
    dilation: Annotated[
        float | None, typer.Option(help="Slow motion of the cpu backend; measured when not given.")
    ] = None,
    time_budget: Annotated[
        float | None, typer.Option(help="Seconds that executing may take; the slow motion is limited by it.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of prompts and solver.")] = 0,
    traces: Annotated[
        Path | None, typer.Option(help="Folder for a trace of every step (`prescope inspect`, Perfetto).")
    ] = None,
    recording: Annotated[
        Path | None,
        typer.Option(help="File (.json.gz) for all steps in full; several policies get one each, by name."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON (docs/json.md).")] = False,
) -> None:
    """Generate text with the experts in host memory under several policies, and say what each cost."""
    from prescope.commands.documents import require_recording
    from prescope.commands.output import console, print_json, print_table, progress_console
    from prescope.commands.prompts import take_prompts
    from prescope.compare import CompareSettings, compare
    from prescope.models import named_predictor, open_model
    from prescope.report import comparison_heading, comparison_table

    if recording is not None:
        require_recording(recording)
    settings = CompareSettings(
        policies=_names(policies),
        retentions=_names(retention),
        preset=preset,
        backend=backend,
        predictor=named_predictor(model, predictor),
        clairvoyant=clairvoyant,
        new_tokens=tokens,
        resident_share=resident,
        slots=slots,
        lookahead=lookahead,
        seed=seed,
        dilation=dilation,
        time_budget_s=time_budget,
    )
    texts, others = take_prompts(model, prompts, other_prompts, batch, seed=seed)
    stderr = progress_console()

    def progress(text: str) -> None:
        stderr.print(f"... {text}", style="dim", markup=False)

    progress(f"loading {model}")
    network, tokenizer = open_model(model)
    result = compare(network, tokenizer, texts, others, settings, name=model, progress=progress)
    if traces is not None:
        _write_traces(traces, result)
    if recording is not None:
        _write_recordings(recording, result)
    if as_json:
        print_json(result.document())
    else:
        out = console()
        out.print(comparison_heading(result), markup=False)
        print_table(comparison_table(result))
    if not all(row.tokens_equal for row in result.rows):
        raise typer.Exit(1)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _write_traces(folder: Path, result: Comparison) -> None:
    from prescope.inspection import recorded_view
    from prescope.inspection.perfetto import write_perfetto

    folder.mkdir(parents=True, exist_ok=True)
    for row in result.rows:
        for step in row.recording.steps:
            notes = {
                "model": result.model,
                "preset": result.preset,
                "policy": row.policy,
                "retention": row.retention,
                "predictor": row.predictor,
                "backend": result.backend,
            }
            path = folder / f"{row.file_label}-step{step.index:03d}.json"
            write_perfetto(path, (recorded_view(step),), notes)


def _write_recordings(path: Path, result: Comparison) -> None:
    from prescope.instances import write_recording

    for row in result.rows:
        write_recording(path if len(result.rows) == 1 else _beside(path, row.file_label), row.recording)


def _beside(path: Path, label: str) -> Path:
    name, dot, endings = path.name.partition(".")
    return path.with_name(f"{name}-{label}{dot}{endings}")
