"""``prescope import`` and ``prescope export-log``: routing logs of other programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from prescope.instances import RoutingTrace

_KINDS = {".csv": "csv", ".csv.gz": "csv", ".jsonl": "jsonl", ".jsonl.gz": "jsonl"}


def import_log(
    log: Annotated[Path, typer.Argument(help="The log: .csv or .jsonl, also compressed (.gz).")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The trace file (.npz).")],
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON (docs/json.md).")] = False,
) -> None:
    """Turn a routing log into a trace. docs/recording.md describes both kinds of log.

    A CSV log has a row per token, layer and chosen expert (turn, phase, step, layer, slot, expert, weight,
    expert_bytes) below lines such as '# experts: 128'. A JSON log has a line per forward pass and layer with
    the ids of all its tokens. Logs are read in blocks; memory holds the trace and little more.
    """
    from prescope.instances import write_trace
    from prescope.instances.importers import read_csv_log, read_jsonl_log

    kind = _kind(log)
    require_npz(output)
    read: Callable[..., RoutingTrace] = read_csv_log if kind == "csv" else read_jsonl_log
    trace = read(log, progress=_progress(log))
    sha256 = write_trace(output, trace)
    answer({"log": str(log)} | trace_facts(trace, output) | {"sha256": sha256}, as_json=as_json)


def export_log(
    trace: Annotated[Path, typer.Argument(help="The trace file (.npz).")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The log: .csv or .jsonl, compressed when it ends in .gz.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON (docs/json.md).")] = False,
) -> None:
    """Write a trace as a routing log, which `prescope import` turns into the same trace again.

    Gating inputs have no place in a log and are left out.
    """
    from prescope.commands.output import progress_console
    from prescope.instances import read_trace
    from prescope.instances.importers import write_csv_log, write_jsonl_log

    kind = _kind(output)
    found = read_trace(trace)
    if found.hidden is not None:
        progress_console().print("gating inputs are left out: a log has no place for them", style="dim")
    (write_csv_log if kind == "csv" else write_jsonl_log)(output, found)
    answer({"trace": str(trace)} | trace_facts(found, output), as_json=as_json)


def require_npz(output: Path) -> None:
    """Refuse another ending before anything is computed."""
    if output.suffix != ".npz":
        raise ValueError(f"expected an output name ending in .npz, got {output}")


def trace_facts(trace: RoutingTrace, path: Path) -> dict[str, Any]:
    """What answers say of a trace."""
    return {
        "model": trace.meta.model,
        "path": str(path),
        "tokens": trace.tokens,
        "sequences": trace.sequences,
        "layers": trace.layers,
        "experts": trace.meta.experts,
        "top_k": trace.meta.top_k,
    }


def answer(facts: dict[str, Any], *, as_json: bool) -> None:
    """Say where a trace or log is, and how large."""
    from prescope.commands.output import console, print_json

    if as_json:
        print_json(facts)
        return
    console().print(
        f"{facts['tokens']} tokens of {facts['sequences']} sequences in {facts['path']}",
        markup=False,
        soft_wrap=True,
    )


def _kind(log: Path) -> str:
    for ending, kind in _KINDS.items():
        if log.name.endswith(ending):
            return kind
    raise ValueError(f"expected a log's name to end in one of {', '.join(_KINDS)}, got {log.name}")


def _progress(log: Path) -> Callable[[int, int], None]:
    """Say every tenth of a large file on stderr."""
    from prescope.commands.output import progress_console

    stderr, said = progress_console(), 0

    def progress(done: int, whole: int) -> None:
        nonlocal said
        tenth = 10 * done // max(1, whole)
        if tenth > said and whole > 1 << 24:
            said = tenth
            stderr.print(f"... {10 * tenth} % of {log.name}", style="dim", markup=False)

    return progress
