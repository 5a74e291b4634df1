"""Command: train the tiny model (``python -m prescope.tiny.train -o FOLDER``)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from prescope.tiny._training import Progress


def train_command(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write the checkpoint to.")],
    steps: Annotated[int | None, typer.Option(min=1, help="Optimiser steps [default: the recipe's].")] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0.01, help="Stop by the clock instead (not reproducible).")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the weights and of the order of the text.")] = 0,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 2,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing checkpoint.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the provenance record as JSON.")] = False,
) -> None:
    """Train the tiny Qwen3-MoE from scratch on the standard library's sources (a few minutes, 2 cores)."""
    from prescope.tiny._checkpoint import refuse_existing, save_checkpoint
    from prescope.tiny._recipe import Recipe
    from prescope.tiny._training import train

    if steps is not None and minutes is not None:
        raise typer.BadParameter("expected --steps or --minutes, got both")
    recipe = Recipe(seed=seed, threads=threads)
    if steps is not None:
        recipe = replace(recipe, steps=steps)
    try:
        refuse_existing(output, overwrite=overwrite)
        with _progress(shown=not as_json) as observe:
            trained = train(recipe, seconds=None if minutes is None else 60.0 * minutes, observe=observe)
            record = save_checkpoint(trained, output, recipe=recipe, overwrite=overwrite)
    except (FileExistsError, ValueError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from error
    except KeyboardInterrupt:
        typer.echo(f"interrupted, {output} was not written", err=True)
        raise typer.Exit(130) from None
    if as_json:
        typer.echo(json.dumps(record, indent=2))
        return
    typer.echo(
        f"{output}: validation loss {record['validation_loss']:.3f} nats per token after "
        f"{record['steps']} steps, {record['tokens']:,} tokens, {record['wall_s']:.0f} s"
    )


@contextmanager
def _progress(*, shown: bool) -> Iterator[Callable[[Progress], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f}% loss {task.fields[loss]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), disable=not shown) as bar:
        task = bar.add_task("reading text", total=1.0, loss="-")
        smooth: list[float] = []

        def observe(progress: Progress) -> None:
            smooth.append(progress.loss)
            loss = sum(smooth[-20:]) / len(smooth[-20:])
            bar.update(task, description="training", completed=progress.fraction, loss=f"{loss:.3f}")

        yield observe


if __name__ == "__main__":
    typer.run(train_command)
