"""``prescope bench``: sweeps of methods over saved instances, their check and their report."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from prescope.bench import Improvement


class _RunByDefault(TyperGroup):
    """`prescope bench SET` is `prescope bench run SET`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] != "--help":
            args = ["run", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_RunByDefault,
    help="Run methods over saved instances. `prescope bench SET` is short for `prescope bench run SET`.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

AsJson = Annotated[bool, typer.Option("--json", help="Answer in JSON (docs/json.md).")]
Library = Annotated[Path | None, typer.Option(help="Folder of the library; by default the package's.")]
UpdateBest = Annotated[
    bool, typer.Option("--update-best", help="Put shorter plans into the library, after checking them.")
]


@app.command("run", short_help="Run methods over sets of instances.")
def run(
    instances: Annotated[
        list[str], typer.Argument(help="Sets, instances or horizons of the library (with * and ?), or files.")
    ],
    methods: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated: names of methods, gate:POLICY for predicted demand, RULE+PLANNER for "
            "horizons. By default some of each kind."
        ),
    ] = None,
    limits: Annotated[
        str, typer.Option(help="Comma-separated: default, a wall time (500ms, 2s), det:5 for CP-SAT's own.")
    ] = "default",
    seeds: Annotated[str, typer.Option(help="Comma-separated, with ranges: 0,3-5.")] = "0",
    hints: Annotated[str, typer.Option(help="none, or best: hint the library's best plan.")] = "none",
    replan: Annotated[
        str, typer.Option(help="Predicted demand: plan at all gates, or once before the step.")
    ] = "gates",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for rows and plans; goes on where it was.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes, with one thread each.")] = 1,
    engine: Annotated[str, typer.Option(help="local, or dask: an existing cluster.")] = "local",
    scheduler: Annotated[str | None, typer.Option(help="Address of the Dask scheduler.")] = None,
    accept_changes: Annotated[
        bool, typer.Option("--accept-changes", help="Go on in a folder of other settings or versions.")
    ] = False,
    retry_errors: Annotated[bool, typer.Option("--retry-errors", help="Run broken runs again.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Then evaluate every stored plan again.")] = False,
    update_best: UpdateBest = False,
    library: Library = None,
    as_json: AsJson = False,
) -> None:
    """Run every method on every instance; one row per run, plans beside it, resumable."""
    from prescope.bench import BenchSettings, Hints, Replan, check_runs, find_cases, run_bench, update_library
    from prescope.commands.bench_answer import answer
    from prescope.commands.bench_options import (
        default_methods,
        member,
        numbers,
        open_engine,
        scratch_folder,
        words,
    )
    from prescope.commands.bench_progress import runs_shown
    from prescope.commands.output import progress_console

    cases = find_cases(instances, library=library)
    settings = BenchSettings(
        methods=words(default_methods(cases) if methods is None else methods),
        limits=words(limits),
        seeds=numbers("--seeds", seeds),
        hints=member(Hints, "--hints", hints),
        replan=member(Replan, "--replan", replan),
    )
    chosen = open_engine(engine, scheduler, jobs)
    with ExitStack() as stack:
        folder = output or Path(stack.enter_context(scratch_folder()))
        with runs_shown() as progress:
            outcome = run_bench(
                cases,
                settings,
                folder,
                engine=chosen,
                accept_changes=accept_changes,
                retry_errors=retry_errors,
                progress=progress,
            )
        checked = None
        if check or update_best:
            checked = check_runs(folder, cases)
        improved: tuple[Improvement, ...] = ()
        if update_best and checked is not None and not checked.faults:
            improved = update_library(folder, library=library)
    extra = {"folder": None if output is None else str(output), "ran": outcome.ran}
    failed = answer(outcome.rows, checked, improved, extra, as_json)
    if output is None and not as_json:
        progress_console().print("rows and plans are dropped; keep them with -o FOLDER", style="dim")
    if failed:
        raise typer.Exit(1)


@app.command("report", short_help="Tables, statistics and plots of a run.")
def report(
    folder: Annotated[Path, typer.Argument(help="What `prescope bench -o` wrote.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for report.md, summary.csv and the plots.")
    ] = None,
    plots: Annotated[bool, typer.Option("--plots/--no-plots", help="Draw plots as well.")] = True,
    as_json: AsJson = False,
) -> None:
    """Print gaps, plan times and profiles, and write them beside the rows."""
    from prescope.bench import read_rows, write_report
    from prescope.commands.bench_answer import answer
    from prescope.commands.output import console

    rows = read_rows(folder)
    if not rows:
        raise ValueError(f"expected rows in {folder}, got none; run `prescope bench` with -o {folder} first")
    target = output or folder
    target.mkdir(parents=True, exist_ok=True)
    files = [str(path) for path in write_report(rows, target, plots=plots)]
    failed = answer(rows, None, (), {"folder": str(folder), "files": files}, as_json)
    if not as_json:
        console().print("written: " + ", ".join(files), markup=False, soft_wrap=True)
    if failed:
        raise typer.Exit(1)


@app.command("check", short_help="Evaluate every stored plan of a run again.")
def check(
    folder: Annotated[Path, typer.Argument(help="What `prescope bench -o` wrote, here or elsewhere.")],
    instances: Annotated[
        list[str] | None, typer.Argument(help="Instances as for `run`; by default those of the library.")
    ] = None,
    update_best: UpdateBest = False,
    library: Library = None,
    as_json: AsJson = False,
) -> None:
    """Hold a run to its plans: the exact evaluator judges again. The methods themselves are not needed."""
    from prescope.bench import check_runs, find_cases, read_rows, update_library
    from prescope.commands.bench_answer import check_document, print_check
    from prescope.commands.output import console, print_json
    from prescope.instances import list_library

    if instances:
        cases = find_cases(instances, library=library)
    else:
        listed = {entry.name for entry in list_library(library)}
        used = {row.instance for row in read_rows(folder)}
        cases = find_cases(sorted(used & listed), library=library) if used & listed else ()
    outcome = check_runs(folder, cases)
    improved: tuple[Improvement, ...] = ()
    if update_best and not outcome.faults:
        improved = update_library(folder, library=library)
    if as_json:
        print_json(check_document(outcome, improved))
    else:
        print_check(console(), outcome, improved)
    if outcome.faults:
        raise typer.Exit(1)
