"""``prescope whatif``: what another machine would do with recorded routing."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from prescope.whatif import Lever, Machine, WhatIf


def whatif(
    trace: Annotated[Path, typer.Argument(help="Recorded routing (.npz); `prescope record` makes it.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for whatif.csv, .json, .png and .html; resumes there."),
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="Costs, 'model@machine'; by default those of the model.")
    ] = None,
    costs: Annotated[Path | None, typer.Option(help="Measured costs instead (`prescope profile`).")] = None,
    as_run: Annotated[
        Path | None,
        typer.Option(help="A recording made with these costs: everything at the pace that it really had."),
    ] = None,
    memory_now: Annotated[
        str, typer.Option(help="Expert memory as it is: 4GiB, or a share of all experts.")
    ] = "25%",
    batch_now: Annotated[int, typer.Option(min=1, help="Tokens per step as it is.")] = 1,
    recall_now: Annotated[
        str, typer.Option(help="Recall of the predictor as it is; 'none', or 1 for an oracle.")
    ] = "0.8",
    sweep: Annotated[
        str, typer.Option(help="What is swept, of these, comma-separated.")
    ] = "memory,link,speed,batch,recall",
    memory: Annotated[str | None, typer.Option(help="Such as 2GiB:16GiB:6, or 10%,50%,100%.")] = None,
    link: Annotated[str | None, typer.Option(help="GB/s of the link or disk, such as 12,24,50.")] = None,
    speed: Annotated[
        str | None, typer.Option(help="CPU speed (disk: all computing) as a multiple, such as 0.5,1,2.")
    ] = None,
    batch: Annotated[str | None, typer.Option(help="Tokens per step, such as 1,8,32.")] = None,
    recall: Annotated[str | None, typer.Option(help="Recalls, such as none,0.5,0.8,1.")] = None,
    grid: Annotated[
        bool, typer.Option("--grid", help="All combinations, not only one thing at a time.")
    ] = False,
    steps: Annotated[int, typer.Option(min=1, help="Steps that count.")] = 64,
    warm: Annotated[int, typer.Option(min=0, help="Steps before them.")] = 16,
    lookahead: Annotated[
        int | None, typer.Option(min=0, help="Layers ahead; by default 4, on disk 2, as attached.")
    ] = None,
    policy: Annotated[str, typer.Option(help="Gate policy, such as expected, dp or presched.")] = "expected",
    residency: Annotated[
        str, typer.Option(help="On disk, what stays in memory, such as moving-average or lru.")
    ] = "moving-average",
    overhead: Annotated[
        float, typer.Option(min=0.0, help="Microseconds added to every layer, for what costs leave out.")
    ] = 0.0,
    measured_now: Annotated[
        float | None,
        typer.Option(
            min=1e-9, help="Tokens/s measured as it is: sets --overhead so that it is simulated too."
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Of the sequences and the predictor's mistakes.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON (docs/json.md).")] = False,
) -> None:
    """Replay recorded routing on machines that you do not have, in simulation, and say what they bring."""
    from prescope.commands.output import print_json
    from prescope.instances import read_trace
    from prescope.whatif import Lever, WhatIfSettings, machine_as_run, machine_of, run_whatif
    from prescope.whatif.document import whatif_document
    from prescope.whatif.files import write_files
    from prescope.whatif.run import matched
    from prescope.whatif.store import open_store

    recorded = read_trace(trace)
    machine = machine_of(recorded, named=preset, costs=costs)
    if as_run is not None:
        machine = machine_as_run(machine, as_run)
    texts = {
        Lever.MEMORY: memory,
        Lever.LINK: link,
        Lever.SPEED: speed,
        Lever.BATCH: batch,
        Lever.RECALL: recall,
    }
    now = {Lever.MEMORY: memory_now, Lever.BATCH: str(batch_now), Lever.RECALL: recall_now}
    on_disk = machine.tier.value == "disk"
    settings = WhatIfSettings(
        **_asked(machine, recorded.meta.experts, now, sweep, texts),
        grid=grid,
        steps=steps,
        warm=warm,
        lookahead=(2 if on_disk else 4) if lookahead is None else lookahead,
        overhead_ns=round(overhead * 1000),
        seed=seed,
        policy=policy,
        residency=residency,
    )
    if measured_now is not None:
        if overhead:
            raise ValueError(
                f"expected either --overhead or --measured-now, got {overhead:g} and {measured_now:g}"
            )
        settings = matched(recorded, machine, settings, tokens_per_s=measured_now)
    with ExitStack() as stack:
        store = None
        if output is not None:
            store = stack.enter_context(open_store(output, recorded, machine, settings))
        found = run_whatif(
            recorded,
            machine,
            settings,
            jobs=jobs,
            known=() if store is None else store.known,
            on_outcome=(lambda _: None) if store is None else store.add,
            progress=stack.enter_context(_progress()),
        )
        document = {
            "trace": str(trace),
            **whatif_document(found),
            "output": None if output is None else str(output),
        }
        written: tuple[str, ...] = ()
        if output is not None and store is not None:
            written = write_files(output, found, document)
            store.remove()
    if as_json:
        print_json(document)
        return
    _tell(found, output, written)


def _asked(
    machine: Machine, experts: int, now: dict[Lever, str], sweep: str, texts: dict[Lever, str | None]
) -> dict[str, Any]:
    """The machine as it is and the values to try."""
    from prescope.whatif import Lever, Point
    from prescope.whatif.ranges import default_values, parse_value, parse_values

    sizes = machine.costs.expert_bytes
    total_bytes, least_bytes = experts * sum(sizes), max(sizes)
    held = parse_value(Lever.MEMORY, now[Lever.MEMORY], total_bytes=total_bytes)
    batch = parse_value(Lever.BATCH, now[Lever.BATCH], total_bytes=total_bytes)
    point = Point(
        memory_bytes=round(held or 0),
        link_bytes_per_s=machine.costs.link.bytes_per_s,
        batch=round(batch or 1),
        recall=parse_value(Lever.RECALL, now[Lever.RECALL], total_bytes=total_bytes),
    )
    names = [name.strip() for name in sweep.split(",") if name.strip()]
    unknown = [name for name in names if name not in {lever.value for lever in Lever}]
    if unknown:
        raise ValueError(f"expected --sweep among {', '.join(Lever)}, got {', '.join(unknown)}")
    values = {}
    for lever in Lever:
        text = texts[lever]
        if text is not None:
            values[lever] = parse_values(lever, text, total_bytes=total_bytes)
        elif lever.value in names:
            values[lever] = default_values(lever, point, total_bytes=total_bytes, least_bytes=least_bytes)
    return {"now": point, "values": values}


def _progress() -> Any:
    """A bar on a terminal; elsewhere a line now and then."""
    from collections.abc import Callable, Iterator
    from contextlib import contextmanager
    from time import monotonic

    from prescope.commands.output import progress_console

    @contextmanager
    def shown() -> Iterator[Callable[[int, int], None]]:
        stderr = progress_console()
        last = monotonic()
        if not stderr.is_terminal:

            def lines(done: int, total: int) -> None:
                nonlocal last
                if monotonic() - last > 5:
                    last = monotonic()
                    stderr.print(f"... {done} of {total} machines", style="dim")

            yield lines
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

        columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=stderr, transient=True) as bar:
            task = bar.add_task("", total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)

    return shown()


def _tell(found: WhatIf, output: Path | None, written: tuple[str, ...]) -> None:
    from prescope.commands.output import console, print_table
    from prescope.formulation import format_ns
    from prescope.report import plain_table
    from prescope.whatif import sentences
    from prescope.whatif.files import PNG_NAME
    from prescope.whatif.words import lever_text, value_text

    out = console()
    for sentence in sentences(found):
        out.print(sentence, markup=False)
    if found.same:
        out.print(
            "The trace has one sequence: what stays in memory is chosen by the very tokens replayed, "
            "which flatters.",
            style="yellow",
        )
    for one in found.sweeps:
        out.print()
        name = lever_text(one.lever, found.machine.tier)
        table = plain_table(name, "tokens/s", "mean step", "p99 step", "copied/token", "")
        for index, (value, row) in enumerate(zip(one.values, one.outcomes, strict=True)):
            notes = [
                text for text, here in (("now", index == one.now), ("knee", _is_knee(one, index))) if here
            ]
            table.add_row(
                value_text(one.lever, value),
                f"{row.tokens_per_s:.4g}",
                format_ns(row.mean_ns),
                format_ns(row.p99_ns),
                f"{row.copied_bytes_per_token / 1e6:.1f} MB",
                ", ".join(notes),
            )
        print_table(table)
    if output is not None:
        out.print(f"\nwritten: {output}/{', '.join(written)}", markup=False, soft_wrap=True)
        if PNG_NAME not in written:
            out.print("no picture: it needs matplotlib (pip install 'prescope[plot]')", markup=False)


def _is_knee(sweep: Any, index: int) -> bool:
    return sweep.knee is not None and sweep.knee.index == index
