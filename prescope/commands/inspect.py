"""``prescope inspect``: look at a plan, an executed step or recorded routing."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from prescope.formulation import Schedule


def inspect(
    file: Annotated[Path, typer.Argument(help="A plan, a trace of an executed step, or recorded routing.")],
    instance: Annotated[
        str | None, typer.Option(help="The plan's instance: a file, or a name in the library.")
    ] = None,
    perfetto: Annotated[
        Path | None, typer.Option(help="Also write a trace for https://ui.perfetto.dev.")
    ] = None,
    layers: Annotated[str | None, typer.Option(help="Draw these layers only: FIRST:LAST.")] = None,
    width: Annotated[int | None, typer.Option(min=22, help="Columns; by default the terminal's.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON (docs/json.md).")] = False,
) -> None:
    """Draw a plan or an executed step: link, GPU and CPU over time."""
    from prescope.commands.documents import schedule_document
    from prescope.commands.output import console, print_json
    from prescope.report import gantt, pairs_table, window_ns, write_trace

    view = _open(file, instance)
    window = None if layers is None else _layers(layers)
    for schedule in view.schedules.values():
        window_ns(schedule, window)
    if perfetto is not None:
        if not view.schedules:
            raise ValueError(f"expected a plan or a trace for --perfetto, got {view.kind} in {file}")
        write_trace(perfetto, view.schedules, view.notes)
    if as_json:
        schedules = [schedule_document(name, schedule) for name, schedule in view.schedules.items()]
        print_json({"kind": view.kind, "file": str(file), **view.facts, "schedules": schedules})
        return
    out = console()
    shown = view.notes if view.kind == "trace" else view.facts
    facts = [(_words(key), _readable(key, value)) for key, value in shown.items()]
    out.print(pairs_table(facts))
    for name, schedule in view.schedules.items():
        out.print(f"\n{name}", style="bold", markup=False)
        drawing = gantt(schedule, width=width or out.width, colour=out.is_terminal, layers=window)
        out.print(drawing, crop=False, no_wrap=True, overflow="ignore", soft_wrap=True)
    if perfetto is not None:
        out.print(f"\nwritten: {perfetto} (open it at https://ui.perfetto.dev)", markup=False, soft_wrap=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    kind: str
    facts: dict[str, Any]
    schedules: dict[str, Schedule] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)


def _open(file: Path, instance: str | None) -> _View:
    if file.suffix == ".npz":
        return _routing(file)
    if _format_of(file) == "prescope-plan":
        return _plan(file, instance)
    return _trace(file)


def _format_of(file: Path) -> object:
    """What a JSON file says it is; its own reader complains about everything else."""
    import gzip
    import json

    if not file.is_file():
        raise ValueError(f"expected a file, got none at {file}; check the path")
    try:
        data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        document = json.loads(data)
    except (ValueError, OSError, EOFError) as error:
        raise ValueError(f"{file}: expected a plan or a trace in JSON, got {error}") from error
    found = document.get("format") if isinstance(document, dict) else None
    if found == "prescope-instance":
        raise ValueError(
            f"{file}: expected a plan or a trace, got an instance; `prescope instances show` describes it "
            "and `prescope solve` plans it"
        )
    return found


def _plan(file: Path, instance: str | None) -> _View:
    from prescope.commands.sources import instance_of
    from prescope.formulation import evaluate
    from prescope.instances import read_plan

    plan_file = read_plan(file)
    problem = instance_of(plan_file, instance).instance
    info = plan_file.plan.info
    schedule = evaluate(problem, plan_file.plan)
    bound = info.lower_bound_ns
    facts = {
        "instance": problem.name,
        "method": info.method,
        "makespan_ns": schedule.makespan_ns,
        "lower_bound_ns": bound,
        "gap": schedule.makespan_ns / bound - 1 if bound else None,
    }
    notes = {"instance": problem.name, "method": info.method}
    return _View(kind="plan", facts=facts, schedules={"planned": schedule}, notes=notes)


def _trace(file: Path) -> _View:
    from prescope.report import read_trace

    trace = read_trace(file)
    return _View(kind="trace", facts={"notes": trace.notes}, schedules=trace.schedules, notes=trace.notes)


def _routing(file: Path) -> _View:
    import numpy as np

    from prescope.instances import popularity, read_trace

    trace = read_trace(file)
    ranked = -np.sort(-popularity(trace), axis=1)
    quarter = max(trace.meta.experts // 4, 1)
    facts = {
        "model": trace.meta.model,
        "tokens": trace.tokens,
        "sequences": trace.sequences,
        "layers": trace.layers,
        "experts": trace.meta.experts,
        "top_k": trace.meta.top_k,
        # Uniform routing would give the hottest quarter a quarter of the load.
        "hottest_quarter_share": float((ranked[:, :quarter].sum(axis=1) / ranked.sum(axis=1)).mean()),
    }
    return _View(kind="routing", facts=facts)


def _layers(text: str) -> tuple[int, int]:
    first, separator, last = text.partition(":")
    if not (first.isdecimal() and (last if separator else first).isdecimal()):
        raise ValueError(f"expected --layers FIRST:LAST, for example 0:3, got {text!r}")
    return int(first), int(last if separator else first)


def _words(key: str) -> str:
    return key.removesuffix("_ns").replace("_", " ")


def _readable(key: str, value: object) -> str:
    from prescope.formulation import format_ns

    if value is None:
        return "not known"
    if key.endswith("_ns") and isinstance(value, int):
        return format_ns(value)
    return f"{value:.3%}" if isinstance(value, float) else str(value)
