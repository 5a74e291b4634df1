"""``prescope inspect``: look at anything that prescope wrote."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from prescope.inspection import StepView, View


def inspect(
    file: Annotated[
        Path,
        typer.Argument(
            help="An instance or a horizon (also by its name in the library), a plan of one, a program, "
            "a trace, a recording, recorded routing, a benchmark's folder, or the JSON of bench or evaluate."
        ),
    ],
    instance: Annotated[
        str | None,
        typer.Option(help="What a plan is for: a file, or a name in the library; by default the plan's."),
    ] = None,
    step: Annotated[int | None, typer.Option(min=0, help="Draw this step; by default the slowest.")] = None,
    layer: Annotated[int | None, typer.Option(min=0, help="Draw this layer and list its experts.")] = None,
    layers: Annotated[str | None, typer.Option(help="Draw these layers only: FIRST:LAST.")] = None,
    html: Annotated[
        Path | None, typer.Option(help="Also write a page that opens in any browser, without a network.")
    ] = None,
    perfetto: Annotated[
        Path | None, typer.Option(help="Also write a trace for https://ui.perfetto.dev.")
    ] = None,
    torch_profile: Annotated[
        Path | None,
        typer.Option(help="A file of torch.profiler of the same run, to draw --perfetto on its clock."),
    ] = None,
    program: Annotated[
        Path | None, typer.Option(help="Also write the operations that a plan is compiled to, as JSON.")
    ] = None,
    width: Annotated[int | None, typer.Option(min=22, help="Columns; by default the terminal's.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON (docs/json.md).")] = False,
) -> None:
    """See what was planned, what happened, and why: link, GPU and CPU over time, sums, layers, experts."""
    from prescope.commands.output import console, counting, print_json, working
    from prescope.inspection import open_view
    from prescope.inspection.document import view_document
    from prescope.inspection.terminal import print_view

    if layer is not None and layers is not None:
        raise ValueError("expected --layer or --layers, got both")
    problem = None if instance is None else Path(instance)
    read = {"FILE": file, "--instance": problem, "--torch-profile": torch_profile}
    _keep_apart({**read, "--html": html, "--perfetto": perfetto, "--program": program})
    with working(f"opening {file}"):
        view = open_view(file, instance=instance)
    shown = _shown(view, step)
    window = (layer, layer) if layer is not None else None if layers is None else _layers(layers)
    if window is not None:
        _check(view, shown, window, "--layers" if layer is None else "--layer")
    written = []
    if perfetto is not None:
        _write_perfetto(
            view, perfetto, shown if step is not None or len(view.steps) == 1 else None, torch_profile
        )
        written.append(f"{perfetto} (open it at https://ui.perfetto.dev)")
    elif torch_profile is not None:
        raise ValueError("expected --perfetto FILE with --torch-profile, got none")
    if program is not None:
        _write_program(view, program, shown)
        written.append(str(program))
    if html is not None:
        from prescope.page import write_page

        start = 0 if shown is None else view.steps.index(shown)
        with counting("page: step") as progress:
            write_page(view, html, start=start, progress=progress)
        written.append(f"{html} (open it in a browser)")
    if as_json:
        print_json(view_document(view, shown, window))
        return
    out = console()
    print_view(out, view, shown, width=width or out.width, layers=window, layer=layer)
    for text in written:
        out.print(f"\nwritten: {text}", markup=False, soft_wrap=True)


def _keep_apart(files: dict[str, Path | None]) -> None:
    """Refuse to write over what is read, or twice to the same place."""
    seen: dict[Path, str] = {}
    for name, path in files.items():
        if path is not None and (other := seen.setdefault(path.resolve(), name)) != name:
            raise ValueError(f"expected other files for {other} and {name}, got {path} for both")


def _shown(view: View, step: int | None) -> StepView | None:
    from prescope.inspection import step_of

    return step_of(view, step) if view.steps or step is not None else None


def _check(view: View, step: StepView | None, window: tuple[int, int], option: str) -> None:
    if step is None:
        raise ValueError(f"expected a file with steps for {option}, got {view.kind.value} in {view.path}")
    first, last = window
    layers = len(step.schedule.layer_end_ns)
    if not first <= last < layers:
        told = f"{first}" if option == "--layer" else f"{first}:{last}"
        raise ValueError(
            f"expected {option}{'' if option == '--layer' else ' FIRST:LAST'} in [0, {layers - 1}], "
            f"got {told} for {view.path}"
        )


def _write_perfetto(view: View, path: Path, step: StepView | None, profile: Path | None) -> None:
    from prescope.inspection.perfetto import write_perfetto

    steps = view.steps if step is None else (step,)
    if not steps:
        raise ValueError(f"expected a file with steps for --perfetto, got {view.kind.value} in {view.path}")
    write_perfetto(path, steps, view.provenance, profile=profile)


def _write_program(view: View, path: Path, step: StepView | None) -> None:
    if step is None or step.instance is None or step.plan is None:
        raise ValueError(f"expected a plan for --program, got {view.kind.value} in {view.path}")
    from prescope.instances._atomic import atomic_file
    from prescope.runtime.compile import compile_plan

    text = compile_plan(step.instance, step.plan).to_json()
    with atomic_file(path) as stream:
        stream.write(text)


def _layers(text: str) -> tuple[int, int]:
    first, separator, last = text.partition(":")
    if not (first.isdecimal() and (last if separator else first).isdecimal()):
        raise ValueError(f"expected --layers FIRST:LAST, for example 0:3, got {text!r}")
    return int(first), int(last if separator else first)
