"""Progress of ``prescope bench`` on stderr: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from prescope.bench import BenchRow
from prescope.commands.output import progress_console

EVERY_S = 10.0
Shown = Callable[[BenchRow | None, int, int], None]


@contextmanager
def runs_shown() -> Iterator[Shown]:
    """What `prescope.bench.run_bench` calls after every run."""
    console = progress_console()
    if not console.is_terminal:
        yield _lines()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)

        def show(row: BenchRow | None, done: int, total: int) -> None:
            text = "starting" if row is None else f"{row.method} on {row.instance}"
            # What is in brackets would be taken for markup.
            bar.update(task, completed=done, total=total, description=text.replace("[", "\\["))

        yield show


def _lines() -> Shown:
    console, last = progress_console(), monotonic()

    def show(row: BenchRow | None, done: int, total: int) -> None:
        nonlocal last
        if row is None and 0 < done:
            console.print(f"{done} of {total} runs are there already", markup=False)
        if monotonic() - last >= EVERY_S:
            last = monotonic()
            console.print(f"{done} of {total} runs", markup=False)

    return show
