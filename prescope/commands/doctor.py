"""``prescope doctor``: what this environment is fit for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from prescope.doctor import Finding

_STYLES = {"ok": "green", "note": "dim", "degraded": "yellow", "broken": "bold red"}


def doctor(
    folder: Annotated[
        Path, typer.Argument(help="Folder of the model, or any on the disk its experts would be read from.")
    ] = Path("."),
    costs: Annotated[
        Path | None, typer.Option(help="A cost file; by default prescope-costs.json in the folder.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 also when something is degraded.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON (docs/json.md).")] = False,
) -> None:
    """Look at versions, device, memory, processor, disk and costs; say what is degraded and what to do.

    Exit code 1 when something that prescope needs is broken.
    """
    from prescope.commands.output import print_json, working
    from prescope.doctor import State, examine

    with working("examining"):
        findings = list(examine(folder, costs=costs))
    counts = {state: sum(one.state is state for one in findings) for state in State}
    if as_json:
        print_json(
            {
                "broken": counts[State.BROKEN],
                "degraded": counts[State.DEGRADED],
                "findings": [
                    {
                        "area": one.area,
                        "name": one.name,
                        "state": one.state.value,
                        "found": one.found,
                        "effect": one.effect,
                        "remedy": one.remedy,
                    }
                    for one in findings
                ],
            }
        )
    else:
        _show(findings, counts[State.DEGRADED], counts[State.BROKEN])
    if counts[State.BROKEN] or (strict and counts[State.DEGRADED]):
        raise typer.Exit(1)


def _show(findings: list[Finding], degraded: int, broken: int) -> None:
    from rich.text import Text

    from prescope.commands.output import console
    from prescope.report.tables import plain_table

    out = console()
    table = plain_table("", "", "", "", left=4)
    area = ""
    for one in findings:
        table.add_row(
            Text("" if one.area == area else one.area, style="bold"),
            Text(one.name),
            Text(one.state.value, style=_STYLES[one.state.value]),
            Text(one.found),
        )
        area = one.area
    table.show_header = False
    out.print(table)
    for one in findings:
        if one.effect or one.remedy:
            out.print(f"\n{one.area}, {one.name}: {one.found}", style="bold", markup=False)
            if one.effect:
                out.print(f"  {one.effect}", markup=False)
            if one.remedy:
                out.print(f"  to do: {one.remedy}", markup=False, soft_wrap=True)
    verdict = "all is well" if not degraded + broken else f"{degraded} degraded, {broken} broken"
    out.print(f"\n{verdict}", style="bold")
