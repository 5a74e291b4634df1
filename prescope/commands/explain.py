"""``prescope explain``: why a plan does what it does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from prescope.explain import ExpertExplanation, LayerExplanation, PlanExplanation


def explain(
    plan: Annotated[
        Path, typer.Argument(help="A plan (`prescope solve -o`), a plan of steps in a row, or a recording.")
    ],
    layer: Annotated[
        int | None, typer.Option(min=0, help="Explain this layer; by default the costliest ones.")
    ] = None,
    expert: Annotated[int | None, typer.Option(min=0, help="Explain where this expert of it runs.")] = None,
    step: Annotated[
        int | None, typer.Option(min=0, help="Of several steps this one; by default the slowest.")
    ] = None,
    instance: Annotated[
        str | None, typer.Option(help="The plan's instance or horizon: a file, or a name in the library.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="How many of the costliest layers.")] = 5,
    prove: Annotated[
        bool, typer.Option("--prove", help="Bound every choice by CP-SAT; for small instances.")
    ] = False,
    break_evens: Annotated[
        bool, typer.Option(help="Look for what would change the choice (a second or two).")
    ] = True,
    seed: Annotated[int, typer.Option(min=0, help="Of planning anew.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON (docs/json.md).")] = False,
) -> None:
    """Explain a plan: the decision, its alternatives and their cost, prices, and what would change it."""
    from prescope.commands.output import console, print_json, print_table, working
    from prescope.explain import (
        ExplainSettings,
        expert_sentences,
        explain_expert,
        explain_layer,
        explain_plan,
        layer_sentences,
        plan_sentences,
    )
    from prescope.explain.document import expert_document, layer_document, plan_document
    from prescope.inspection import open_view, step_of

    if expert is not None and layer is None:
        raise ValueError(f"expected --layer with --expert {expert}, got none")
    view = open_view(plan, instance=instance)
    one_of = step_of(view, step)
    if one_of.instance is None or one_of.plan is None:
        raise ValueError(
            f"expected a plan or a recording, which say what was decided, got {view.kind.value} in {plan}"
        )
    problem, made = one_of.instance, one_of.plan
    number = one_of.index if len(view.steps) > 1 else None
    settings = ExplainSettings(seed=seed, prove=prove, break_evens=break_evens)
    head = {"plan": str(plan), "step": number, "instance": problem.name, "method": made.info.method}
    out = console()
    with working(f"planning {problem.name} again and again"):
        if layer is None:
            whole = explain_plan(problem, made, count=top)
            kind, document, sentences = "plan", plan_document(whole), plan_sentences(whole)
            table = _layers(whole)
        elif expert is None:
            part = explain_layer(problem, made, layer, settings)
            kind, document, sentences = "layer", layer_document(part), layer_sentences(part)
            table = _experts(part)
        else:
            one = explain_expert(problem, made, layer, expert, settings)
            kind, document, sentences = "expert", expert_document(one), expert_sentences(one)
            table = _places(one)
    if as_json:
        print_json({"kind": kind, **head, **document})
        return
    which = problem.name if number is None else f"step {number} of {plan}"
    out.print(f"{which}, planned by {made.info.method}", style="bold", markup=False)
    for sentence in sentences:
        out.print(sentence, markup=False)
    out.print()
    print_table(table)


def _layers(found: PlanExplanation) -> Any:
    from prescope.formulation import format_ns
    from prescope.report import plain_table

    table = plain_table("layer", "takes", "all on device", "lost", "standing still", "link time", "ends with")
    for one, price in zip(found.layers, found.link_prices, strict=True):
        cells = (one.duration_ns, one.ideal_ns, one.lost_ns, one.waited_ns)
        table.add_row(str(one.layer), *map(format_ns, cells), f"{price:.2f}", one.limit.value)
    return table


def _experts(found: LayerExplanation) -> Any:
    from prescope.formulation import format_ns
    from prescope.report import plain_table

    table = plain_table("expert", "tokens", "place", "from", "to", "copy landed", "stood still", "cpu", "gpu")
    for one in found.experts:
        landed = "" if one.copy_end_ns is None else format_ns(one.copy_end_ns)
        host = "" if one.cpu_ns is None else format_ns(one.cpu_ns)
        times = (format_ns(one.start_ns), format_ns(one.end_ns), landed, format_ns(one.waited_ns), host)
        table.add_row(str(one.expert), str(one.tokens), one.place.value, *times, format_ns(one.gpu_ns))
    return table


def _places(found: ExpertExplanation) -> Any:
    from prescope.formulation import format_ns
    from prescope.report import plain_table

    proved = any(one.bound_ns is not None for one in found.alternatives)
    columns = (
        "place",
        "all else as it is",
        "all else planned anew",
        *(("no shorter than",) if proved else ()),
    )
    table = plain_table(*columns)
    for one in found.alternatives:
        times = [one.fixed_ns, one.replanned_ns, *((one.bound_ns,) if proved else ())]
        cells = ["not possible" if time is None else format_ns(time) for time in times]
        table.add_row(one.place.value + (" (the plan's)" if one.chosen else ""), *cells)
    return table
