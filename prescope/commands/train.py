"""``prescope train``: a predictor from a trace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from prescope.instances import RoutingTrace
    from prescope.training import Epoch


def train(
    trace: Annotated[
        str,
        typer.Argument(
            help="A routing trace (.npz) with gating inputs, or 'tiny': streams of this Python's library."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the checkpoint.")],
    kind: Annotated[
        str, typer.Option(help="llapor; routing-only or ridge need no gating inputs.")
    ] = "llapor",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split and of the training.")] = 0,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Passes over the training tokens at most.")
    ] = None,
    validation: Annotated[float, typer.Option(help="Share of the sequences that stop and calibrate.")] = 0.1,
    test: Annotated[float, typer.Option(help="Share of the sequences that are left for `evaluate`.")] = 0.1,
    workers: Annotated[int, typer.Option(min=1, help="Networks trained at once, a core each.")] = 2,
    streams: Annotated[int, typer.Option(min=3, help="Streams of 256 tokens, for 'tiny'.")] = 400,
    restart: Annotated[bool, typer.Option("--restart", help="Forget an unfinished training.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a finished checkpoint.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON (docs/json.md).")] = False,
) -> None:
    """Train a predictor; whole sequences are set apart to choose and to judge, never single tokens.

    A training that was interrupted goes on where it was when the same command is given again.
    """
    from time import perf_counter_ns

    from prescope.commands.output import console, print_json, progress_console
    from prescope.folder_lock import folder_lock
    from prescope.predictor.split import split_sequences
    from prescope.training import KINDS

    if kind not in KINDS:
        raise ValueError(f"expected --kind among {', '.join(KINDS)}, got {kind!r}")
    began = perf_counter_ns()
    stderr = progress_console()

    def progress(epoch: Epoch) -> None:
        loss = "" if epoch.loss is None else f", epoch {epoch.epoch}: {epoch.loss:.3f} nats"
        stderr.print(f"... network {epoch.part + 1} of {epoch.parts}{loss}", style="dim", markup=False)

    output.mkdir(parents=True, exist_ok=True)
    with folder_lock(output, doing="training a predictor", leave=False):
        if (output / "predictor.json").exists() and not overwrite:
            raise ValueError(f"{output} holds a predictor already: choose another folder, or --overwrite")
        recorded = _trace(trace, streams=streams, seed=seed)
        if kind == "llapor" and recorded.hidden is None:
            raise ValueError(
                f"{trace}: expected a trace with gating inputs, got none: record with "
                "`prescope record --hidden`, or train the kind 'routing-only', which needs none"
            )
        split = split_sequences(recorded, seed=seed, validation=validation, test=test)
        facts = _train(
            output,
            recorded,
            split,
            kind,
            seed=seed,
            epochs=epochs,
            workers=workers,
            restart=restart,
            progress=progress,
        )
    answer = {
        "path": str(output),
        "kind": kind,
        "model": recorded.meta.model,
        "tokens": recorded.tokens,
        "sequences": {
            "train": len(split.train),
            "validation": len(split.validation),
            "test": len(split.test),
        },
        **facts,
        "time_ns": perf_counter_ns() - began,
    }
    if as_json:
        print_json(answer)
    else:
        console().print(
            f"{output}: {kind} for {recorded.meta.model}, {answer['parameters']} numbers, "
            f"{answer['time_ns'] / 1e9:.0f} s; judge it with `prescope evaluate`",
            markup=False,
            soft_wrap=True,
        )


def _train(
    output: Path,
    trace: RoutingTrace,
    split: Any,
    kind: str,
    *,
    seed: int,
    epochs: int | None,
    workers: int,
    restart: bool,
    progress: Callable[[Epoch], None],
) -> dict[str, Any]:
    from dataclasses import replace

    from prescope.predictor.llapor.settings import LlaporSettings
    from prescope.training import train_llapor_into, train_routing_only_into

    if kind != "llapor":
        return train_routing_only_into(output, trace, split, kind, progress=progress)
    settings = LlaporSettings(seed=seed)
    if epochs is not None:
        settings = replace(settings, epochs=epochs)
    return train_llapor_into(
        output, trace, split, settings, workers=workers, restart=restart, progress=progress
    )


def _trace(name: str, *, streams: int, seed: int) -> RoutingTrace:
    from prescope.models import TINY

    if name == TINY:
        from prescope.tiny._stream_trace import training_trace

        return training_trace(streams=streams, seed=seed)
    from prescope.instances import read_trace

    return read_trace(name)
