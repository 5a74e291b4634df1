"""``prescope compare``: two plans, traces, recordings or benchmark results."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from prescope.inspection.bench_difference import BenchDifference
    from prescope.inspection.difference import Difference


def compare(
    before: Annotated[
        Path,
        typer.Argument(help="A plan, program, trace, recording or horizon plan, or a benchmark's folder."),
    ],
    after: Annotated[Path, typer.Argument(help="Another one of the same work.")],
    instance: Annotated[
        str | None, typer.Option(help="What plans are for: a file, or a name in the library.")
    ] = None,
    schedule: Annotated[
        str | None, typer.Option(help="planned, simulated, executed or measured; by default what happened.")
    ] = None,
    fail_if_slower: Annotated[
        str | None, typer.Option(help="Exit code 1 when AFTER is slower by more than this, such as 2%.")
    ] = None,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Compare though the experts got other tokens.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON (docs/json.md).")] = False,
) -> None:
    """Say what moved from one to the other, and what it gained: experts, copies, time per layer and part."""
    from prescope.commands.output import console, print_json
    from prescope.inspection.difference_text import print_bench_difference, print_difference

    most = None if fail_if_slower is None else _share(fail_if_slower)
    found: Difference | BenchDifference
    if _is_bench(before) or _is_bench(after):
        from prescope.inspection.bench_difference import bench_difference

        found = bench_difference(before, after)
        document = _bench_document(found)
        show = print_bench_difference
    else:
        from prescope.inspection import open_view
        from prescope.inspection.difference import difference

        views = [open_view(path, instance=instance) for path in (before, after)]
        found = difference(*views, schedule=schedule, anyway=anyway)
        document = _document(found)
        show = print_difference  # type: ignore[assignment]
    slower = most is not None and found.slower(most)
    if as_json:
        print_json({"before": str(before), "after": str(after), "slower": slower, **document})
    else:
        show(console(), found)  # type: ignore[arg-type]
        if most is not None:
            verdict = "slower by more than" if slower else "not slower by more than"
            console().print(f"\n{verdict} {most:.3%}", style="bold red" if slower else "", markup=False)
    if slower:
        raise typer.Exit(1)


def _is_bench(path: Path) -> bool:
    return path.is_dir() or path.suffix == ".csv"


def _share(text: str) -> float:
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise ValueError(f"expected --fail-if-slower as a share >= 0, such as 2% or 0.02, got {text!r}")
    return value


def _document(found: Difference) -> dict[str, Any]:
    return {
        "kind": "steps",
        "schedules": [found.before, found.after],
        "before_ns": found.before_ns,
        "after_ns": found.after_ns,
        "ratio": found.ratio,
        "notices": list(found.notices),
        "moves": [
            {"before": before.value, "after": after.value, "experts": number}
            for before, after, number in found.moves
        ],
        "parts": [asdict(part) for part in found.parts],
        "layers": [asdict(layer) for layer in found.layers],
        "steps": [
            {
                **asdict(step),
                "moved": [
                    {**asdict(one), "before": one.before.value, "after": one.after.value}
                    for one in step.moved
                ],
            }
            for step in found.steps
        ],
    }


def _bench_document(found: BenchDifference) -> dict[str, Any]:
    return {
        "kind": "bench",
        "ratio": found.ratio,
        "notices": list(found.notices),
        "groups": [asdict(group) for group in found.groups],
    }
