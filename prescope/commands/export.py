"""``prescope export``: an instance as a model for other solvers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export(
    instance: Annotated[str, typer.Argument(help="An instance file, or the name of one in the library.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File to write: .mps, .lp, .pb or .pbtxt (CP-SAT).")
    ],
    model: Annotated[
        str | None,
        typer.Option(
            help="table or fluid (numbers of copies per layer: docs/exact-models.md), or schedule (every "
            "expert and copy; .pb and .pbtxt only). By default table for .mps and .lp, schedule otherwise."
        ),
    ] = None,
    tables: Annotated[
        str,
        typer.Option(
            help="Of table and fluid: bound (the optimum is a lower bound of every plan) or plan (what "
            "copying the heaviest experts attains)."
        ),
    ] = "bound",
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON (docs/json.md).")] = False,
) -> None:
    """Write an instance as a model that other solvers read; times are whole nanoseconds."""
    from prescope.commands.output import console, print_json, working
    from prescope.commands.sources import open_instance
    from prescope.formulation.models.layer_functions import Tables
    from prescope.report import pairs_table
    from prescope.solver.exact.export import ModelKind, export_model

    kinds, known = [kind.value for kind in ModelKind], [table.value for table in Tables]
    if model is not None and model not in kinds:
        raise ValueError(f"expected --model to be one of {', '.join(kinds)}, got {model!r}")
    if tables not in known:
        raise ValueError(f"expected --tables to be one of {', '.join(known)}, got {tables!r}")
    problem = open_instance(instance).instance
    with working(f"writing {output}"):
        written = export_model(
            output, problem, kind=None if model is None else ModelKind(model), tables=Tables(tables)
        )
    size = output.stat().st_size
    if as_json:
        print_json(
            {
                "instance": problem.name,
                "path": str(output),
                "model": written.kind.value,
                "columns": written.columns,
                "rows": written.rows,
                "size_bytes": size,
            }
        )
        return
    rows = [("instance", problem.name), ("model", written.kind.value)]
    rows += [("columns", str(written.columns)), ("rows", str(written.rows)), ("file", f"{output} ({size} B)")]
    console().print(pairs_table(rows))
