"""``prescope instances``: the library of saved problems."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="The library of saved problems.", no_args_is_help=True, rich_markup_mode=None)

AsJson = Annotated[bool, typer.Option("--json", help="Answer in JSON (docs/json.md).")]


@app.command("list", short_help="List the library.")
def list_(
    sets: Annotated[list[str] | None, typer.Argument(metavar="[SET]...", help="Only these sets.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the library with its bounds and best known plans."""
    from prescope.commands.output import print_json, print_table
    from prescope.instances import library_root, list_library
    from prescope.report import library_table

    root, entries = library_root(), list_library(sets=sets or None)
    if as_json:
        print_json(
            [
                {**asdict(entry), "path": str(root / entry.path), "plan_path": str(root / entry.plan_path)}
                for entry in entries
            ]
        )
    else:
        print_table(library_table(entries))


@app.command("sets", short_help="List the library's sets.")
def sets(as_json: AsJson = False) -> None:
    """List the library's sets: what they are, how large, how much of them is proved."""
    from prescope.commands.output import console, print_json, print_table
    from prescope.instances import library_root, list_library
    from prescope.report.library_sets import set_lines, sets_table

    lines = set_lines(list_library(), library_root())
    if as_json:
        print_json([asdict(line) for line in lines])
    else:
        print_table(sets_table(lines))
        for line in lines:
            console().print(f"{line.name}: {line.about}", markup=False, soft_wrap=True)


@app.command("show")
def show(
    instance: Annotated[
        str, typer.Argument(help="A file of an instance or a horizon, or the name of one in the library.")
    ],
    as_json: AsJson = False,
) -> None:
    """Say what an instance or a horizon is and where it comes from."""
    from prescope.commands.documents import horizon_document, instance_document
    from prescope.commands.output import console, print_json
    from prescope.commands.sources import open_problem
    from prescope.instances import HorizonFile
    from prescope.report import instance_table
    from prescope.report.horizon_table import horizon_table

    file = open_problem(instance)
    if isinstance(file, HorizonFile):
        if as_json:
            print_json(horizon_document(file))
        else:
            console().print(horizon_table(file))
    elif as_json:
        print_json(instance_document(file))
    else:
        console().print(instance_table(file))


@app.command("build", short_help="Make instances, or a horizon, from recorded routing.")
def build(
    trace: Annotated[Path, typer.Argument(help="A routing trace (.npz), as `prescope record` writes it.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the instance files.")],
    preset: Annotated[str, typer.Option(help="Whose costs: MODEL@MACHINE.")] = "qwen3-30b-a3b@a100-pcie4",
    batch: Annotated[int, typer.Option(min=1, help="Sequences per step.")] = 8,
    slots: Annotated[int, typer.Option(min=0, help="Device buffers for copied experts.")] = 8,
    resident: Annotated[float, typer.Option(min=0, max=1, help="Share of resident experts.")] = 0.25,
    lookahead: Annotated[int | None, typer.Option(min=0, help="Layers ahead a copy may start.")] = None,
    phase: Annotated[str, typer.Option(help="decode or prefill.")] = "decode",
    every: Annotated[int, typer.Option(min=1, help="Keep every so many-th step.")] = 1,
    limit: Annotated[int | None, typer.Option(min=1, help="Keep so many at most.")] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="One horizon of so many steps in a row instead of instances.")
    ] = None,
    history: Annotated[
        int | None, typer.Option(min=0, help="Horizon: first so many sequences that rules may learn from.")
    ] = None,
    predictor: Annotated[
        str | None, typer.Option(help="Horizon: whose forecasts it carries, such as token-table.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make instances from recorded routing, or one horizon: steps in a row, for residency rules."""
    from prescope.commands.build_horizon import build_horizon_file, stem
    from prescope.commands.output import console, print_json, working
    from prescope.instances import Phase, build_instances, read_trace, write_instance

    if steps is None and (history is not None or predictor is not None):
        raise ValueError("expected --steps with --history and --predictor, got none")
    if steps is not None:
        if phase != "decode" or every != 1 or limit is not None:
            raise ValueError("expected --steps without --phase, --every and --limit: decode steps in a row")
        with working(f"building from {trace}"):
            made = build_horizon_file(
                trace,
                output,
                preset,
                batch,
                steps=steps,
                slots=slots,
                lookahead=lookahead,
                resident_fraction=resident,
                history=history,
                predictor=predictor,
            )
        if as_json:
            print_json([made])
        else:
            console().print(f"{made['name']} in {made['path']}", markup=False, soft_wrap=True)
        return
    phases = {member.name.lower(): member for member in Phase}
    if phase not in phases:
        raise ValueError(f"expected --phase among {', '.join(phases)}, got {phase!r}")
    with working(f"building from {trace}"):
        files = build_instances(
            read_trace(trace),
            preset,
            batch,
            slots=slots,
            lookahead=lookahead,
            resident_fraction=resident,
            phase=phases[phase],
            every=every,
            limit=limit,
        )
        output.mkdir(parents=True, exist_ok=True)
        written = []
        for file in files:
            path = output / f"{stem(file.instance.name)}.json.gz"
            written.append(
                {"name": file.instance.name, "path": str(path), "sha256": write_instance(path, file)}
            )
    if as_json:
        print_json(written)
    else:
        console().print(f"{len(written)} instances in {output}", markup=False)


@app.command("verify", short_help="Check files, stored plans and bounds.")
def verify(
    instances: Annotated[
        list[str] | None, typer.Argument(help="Files or names; without any, the whole library.")
    ] = None,
    only: Annotated[list[str] | None, typer.Option("--set", help="Only this set (repeatable).")] = None,
    proofs: Annotated[
        bool, typer.Option("--proofs/--no-proofs", help="Prove the bounds again (minutes), or not (seconds).")
    ] = True,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Read instances again, re-evaluate their stored plans, and prove their bounds again.

    Files outside the library have no stored plan: they are read and their checksum is checked.
    """
    from prescope.commands.library_check import check_named, print_checks

    checks = check_named(instances, sets=only, proofs=proofs, jobs=jobs)
    print_checks(checks, as_json=as_json)
    if any(check.problem is not None for check in checks):
        raise typer.Exit(1)
