"""Differences for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prescope.formulation import format_ns
from prescope.inspection.bench_difference import BenchDifference
from prescope.inspection.difference import Difference
from prescope.inspection.terminal import print_table
from prescope.report.tables import plain_table

if TYPE_CHECKING:
    from rich.console import Console

_MOST_ROWS = 12


def print_difference(out: Console, found: Difference) -> None:
    """Print what moved and what it gained."""
    gain = "" if found.ratio is None else f"  {_change(found.ratio)}"
    out.print(
        f"{found.before} {format_ns(found.before_ns)} -> {found.after} {format_ns(found.after_ns)}{gain}",
        style="bold",
        markup=False,
        soft_wrap=True,
    )
    for notice in found.notices:
        out.print(f"note: {notice}", markup=False, soft_wrap=True)
    _moves(out, found)
    table = plain_table("where the time went", "before", "after", "change", gap=2, fold=False)
    for part in found.parts:
        table.add_row(
            part.name, _ns(part.before_ns), _ns(part.after_ns), _signed(part.after_ns - part.before_ns)
        )
    out.print()
    print_table(out, table)
    _layers(out, found)
    if len(found.steps) > 1:
        _steps(out, found)


def print_bench_difference(out: Console, found: BenchDifference) -> None:
    """Print one line per set and method."""
    for notice in found.notices:
        out.print(f"note: {notice}", markup=False, soft_wrap=True)
    table = plain_table(
        "set", "method", "runs", "shorter", "longer", "makespan", "worst", "on", "lost", "gained", "planning",
        left=2, gap=2, fold=False,
    )  # fmt: skip
    for one in found.groups:
        planning = f"{_optional_ns(one.before_plan_ns)} -> {_optional_ns(one.after_plan_ns)}"
        table.add_row(
            one.set,
            one.before if one.before == one.after else f"{one.before} -> {one.after}",
            str(one.runs),
            str(one.shorter),
            str(one.longer),
            "-" if one.ratio is None else _change(one.ratio),
            "-" if one.worst is None else _change(one.worst),
            one.worst_instance or "-",
            str(one.lost),
            str(one.gained),
            planning,
        )
    print_table(out, table)
    if found.ratio is not None:
        out.print(
            f"\nall runs: makespans {_change(found.ratio)} (geometric mean)", style="bold", markup=False
        )


def _moves(out: Console, found: Difference) -> None:
    added = sum(len(step.copies_added) for step in found.steps)
    dropped = sum(len(step.copies_dropped) for step in found.steps)
    earlier = sum(step.copies_earlier for step in found.steps)
    later = sum(step.copies_later for step in found.steps)
    out.print(f"\ncopies: {added} added, {dropped} dropped, {earlier} earlier, {later} later", markup=False)
    if not found.moves:
        out.print("experts: none moved", markup=False)
        return
    table = plain_table("weights before", "after", "experts", left=2, gap=2, fold=False)
    for before, after, number in found.moves:
        table.add_row(before.value, after.value, str(number))
    print_table(out, table)


def _layers(out: Console, found: Difference) -> None:
    changed = [layer for layer in found.layers if layer.before_ns != layer.after_ns or layer.moved]
    if not changed:
        out.print("\nlayers: none changed", markup=False)
        return
    most = sorted(changed, key=lambda layer: -abs(layer.after_ns - layer.before_ns))[:_MOST_ROWS]
    table = plain_table("layer", "before", "after", "change", "experts moved", gap=2, fold=False)
    for layer in sorted(most, key=lambda layer: layer.layer):
        table.add_row(
            str(layer.layer),
            _ns(layer.before_ns),
            _ns(layer.after_ns),
            _signed(layer.after_ns - layer.before_ns),
            str(layer.moved or "-"),
        )
    if len(changed) > len(most):
        table.caption = f"the {len(most)} that changed most of {len(changed)}"
        table.caption_justify = "left"
    out.print()
    print_table(out, table)


def _steps(out: Console, found: Difference) -> None:
    most = sorted(found.steps, key=lambda step: -abs(step.after_ns - step.before_ns))[:_MOST_ROWS]
    table = plain_table("step", "before", "after", "change", "experts moved", gap=2, fold=False)
    for step in sorted(most, key=lambda step: step.index):
        table.add_row(
            str(step.index),
            _ns(step.before_ns),
            _ns(step.after_ns),
            _signed(step.after_ns - step.before_ns),
            str(len(step.moved) or "-"),
        )
    if len(found.steps) > len(most):
        table.caption = f"the {len(most)} that changed most of {len(found.steps)}"
        table.caption_justify = "left"
    out.print()
    print_table(out, table)


def _change(ratio: float) -> str:
    return "the same" if ratio == 1 else f"{ratio - 1:+.2%}"


def _ns(value: int) -> str:
    return format_ns(value) if value else "-"


def _optional_ns(value: int | None) -> str:
    return "-" if value is None else format_ns(value)


def _signed(value: int) -> str:
    return "-" if not value else f"{'+' if value > 0 else '-'}{format_ns(abs(value))}"
