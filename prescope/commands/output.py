"""What commands have in common: where answers and progress go."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def console() -> Console:
    """Where answers go: stdout, with colours on a terminal only."""
    from prescope.commands.safe_console import SafeConsole

    return SafeConsole(highlight=False)


def progress_console() -> Console:
    """Where progress goes: stderr, so that stdout stays clean for ``--json``."""
    from prescope.commands.safe_console import SafeConsole

    return SafeConsole(stderr=True, highlight=False)


def print_table(table: Table) -> None:
    """Write a table with a line for every row, however narrow the terminal: names stay whole."""
    from rich.measure import Measurement

    out = console()
    table.width = Measurement.get(out, out.options.update(max_width=10_000), table).maximum
    out.print(table, crop=False)


def print_json(document: Any) -> None:
    """Write the answer of ``--json``."""
    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show that something takes time, on a terminal only."""
    stderr = progress_console()
    if not stderr.is_terminal:
        yield
        return
    from rich.text import Text

    # Names of files and instances may look like markup.
    with stderr.status(Text(what)):
        yield


@contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show how far something has come, on a terminal only; called with what is done, and of how much."""
    stderr = progress_console()
    if not stderr.is_terminal:
        yield lambda done, total: None
        return
    from rich.text import Text

    with stderr.status(Text(what)) as status:
        yield lambda done, total: status.update(Text(f"{what} {done} of {total}"))
