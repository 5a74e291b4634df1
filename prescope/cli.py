"""The command line ``prescope``: every command in a file of its own, one place for errors and exit codes.

Exit codes: 0 done, 1 done with a negative answer (a check failed), 2 wrong input, 130 interrupted. An error
in prescope itself is not caught and shows its traceback.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from prescope.commands import (
    bench,
    compare,
    doctor,
    evaluate,
    explain,
    export,
    generate,
    inspect,
    instances,
    placement,
    profile,
    record,
    routing_log,
    run,
    solve,
    train,
    whatif,
)

# Plain help: drawing boxes around it costs 0.3 s.
app = typer.Typer(
    name="prescope",
    help="Predictive scheduling of Mixture-of-Experts inference when the experts do not fit on the card.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("run", short_help="Generate text under several policies, side by side.")(run.run)
app.command("generate", short_help="Generate text with a model's experts on disk.")(generate.generate)
app.command("solve", short_help="Plan one instance.")(solve.solve)
app.command("export", short_help="Write an instance as a model for other solvers.")(export.export)
app.add_typer(instances.app, name="instances")
app.add_typer(bench.app, name="bench")
app.command("record", short_help="Record a model's routing.")(record.record)
app.command("import", short_help="Turn a routing log into a trace.")(routing_log.import_log)
app.command("export-log", short_help="Write a trace as a routing log.")(routing_log.export_log)
app.command("train", short_help="Train a predictor on a trace.")(train.train)
app.command("evaluate", short_help="Judge a predictor on recorded routing.")(evaluate.evaluate)
app.command("profile", short_help="Measure this machine for a model.")(profile.profile)
app.command("placement", short_help="Place experts for another engine.")(placement.placement)
app.command("doctor", short_help="Say what this machine is fit for.")(doctor.doctor)
app.command("whatif", short_help="Say what another machine would bring.")(whatif.whatif)
app.command("explain", short_help="Say why a plan does what it does.")(explain.explain)
app.command("inspect", short_help="See what was planned, what happened, and why.")(inspect.inspect)
app.command("compare", short_help="Say what moved between two runs, and what it gained.")(compare.compare)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"prescope {version('prescope')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    arguments
        Without the program's name; by default those of the process.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = app(args=given, prog_name="prescope", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (`head`) has what it wanted; the flush at exit must not complain either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError) as error:
        if os.environ.get("PRESCOPE_TRACEBACK"):
            raise
        return _fail(given, type(error).__name__, str(error))
    except Exception as error:
        # Wrong usage, whichever click typer brings along.
        if not hasattr(error, "format_message"):
            raise
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(error.format_message())
            return 2
        return _fail(given, "UsageError", f"{error.format_message()} Try --help.")
    if code == 130:
        return _fail(given, "Interrupted", "interrupted; nothing was left half-written", 130)
    return int(code or 0)


def _fail(arguments: list[str], kind: str, message: str, code: int = 2) -> int:
    sys.stderr.write(f"prescope: {' '.join(message.split())}\n")
    if "--json" in arguments:
        sys.stdout.write(json.dumps({"error": {"type": kind, "message": message}}, indent=2) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
