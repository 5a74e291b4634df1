"""``prescope profile``: measure this machine for a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer


def profile(
    model: Annotated[str, typer.Argument(help="'tiny', or the folder of a saved transformers model.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The cost file (.json or .json.gz).")] = Path(
        "prescope-costs.json"
    ),
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer sizes and repeats: seconds, but less exact.")
    ] = False,
    dtype: Annotated[str, typer.Option(help="float32, bfloat16 or float16; auto: the model's own.")] = "auto",
    context: Annotated[
        int, typer.Option(min=0, help="Tokens in the cache of a sequence that decodes.")
    ] = 256,
    seed: Annotated[int, typer.Option(min=0, help="Seed of inputs and of the order of reads.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON (docs/profile.md).")] = False,
) -> None:
    """Measure disk, memory, experts and dense work of a model on this machine, and write a cost file.

    Nothing else should run meanwhile.
    """
    from prescope.commands.cost_report import cost_document, cost_pairs, cost_tables
    from prescope.commands.output import console, print_json
    from prescope.instances import write_costs
    from prescope.report.tables import pairs_table
    from prescope.runtime.profile import ProfileSettings, profile_checkpoint, quick_settings

    _require_place(output)
    settings = (
        quick_settings(context=context, seed=seed) if quick else ProfileSettings(context=context, seed=seed)
    )
    with _progress() as observe:
        file = profile_checkpoint(_folder(model), settings, dtype=dtype, observe=observe)
    sha256 = write_costs(output, file)
    if as_json:
        print_json({"path": str(output), "sha256": sha256, **cost_document(file)})
        return
    out = console()
    out.print(pairs_table(cost_pairs(file)))
    for table in cost_tables(file):
        out.print()
        out.print(table)
    out.print(f"\ncosts in {output}", markup=False, soft_wrap=True)


def _require_place(output: Path) -> None:
    """Refuse before minutes of measuring what would be refused after them."""
    if not output.name.endswith((".json", ".json.gz")):
        raise ValueError(f"expected an output name ending in .json or .json.gz, got {output}")
    if not output.absolute().parent.is_dir():
        raise ValueError(f"expected an output in a folder that exists, got {output}")
    if output.is_dir():
        raise ValueError(f"expected an output that is a file, got the folder {output}")


def _folder(model: str) -> Path:
    from prescope.models import TINY

    if model != TINY:
        return Path(model)
    from prescope.tiny import tiny_model_path

    return tiny_model_path()


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    """A bar on a terminal, else a line per step; both on stderr."""
    from prescope.commands.output import progress_console

    stderr = progress_console()
    if not stderr.is_terminal:
        yield lambda text, done, total: stderr.print(f"... {text}", style="dim", markup=False)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=stderr, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda text, done, total: bar.update(task, description=text, completed=done, total=total)
