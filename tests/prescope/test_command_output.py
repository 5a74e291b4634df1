"""Progress on a terminal shows names as they are, whatever is in them."""

import io

import pytest

from prescope.commands import output


def test_names_that_look_like_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.console import Console

    shown = io.StringIO()
    terminal = Console(file=shown, force_terminal=True, width=200)
    monkeypatch.setattr(output, "progress_console", lambda: terminal)
    with output.working("opening [/red]plan[bold].json"):
        pass
    with output.counting("page of [/red]plan[bold].json") as progress:
        progress(1, 2)
    assert "opening [/red]plan[bold].json" in shown.getvalue()
    assert "page of [/red]plan[bold].json" in shown.getvalue()
