"""The answers of ``prescope bench``, for people and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from prescope.bench import Kind, RowStatus, summarise, violations
from prescope.bench.report_files import REALISED_NOTE, origins
from prescope.bench.tables import (
    GAP_HEADINGS,
    HORIZON_HEADINGS,
    PROFILE_HEADINGS,
    TIME_HEADINGS,
    duration,
    gap_cells,
    horizon_cells,
    profile_cells,
    time_cells,
    troubles,
)
from prescope.commands.output import console, print_json, print_table
from prescope.report import plain_table

if TYPE_CHECKING:
    from rich.console import Console

    from prescope.bench import BenchRow, CheckOutcome, Improvement


def answer(
    rows: Sequence[BenchRow],
    checked: CheckOutcome | None,
    improved: Sequence[Improvement],
    extra: dict[str, Any],
    as_json: bool,
) -> bool:
    """Print what rows come to and return whether that is a negative answer."""
    violated = violations(rows)
    if as_json:
        document = {
            **extra,
            "runs": len(rows),
            "summary": [asdict(group) for group in summarise(rows)],
            "violations": [_run(row) for row in violated],
            "errors": [_run(row) for row in rows if row.status is RowStatus.ERROR],
            "origins": origins(rows),
        }
        if "ran" in extra:
            document["check"] = None if checked is None else check_document(checked, improved)
        print_json(document)
    else:
        _print_tables(console(), rows, "ran" not in extra)
        for text in troubles(rows, violated):
            console().print(text, style="bold red", markup=False, soft_wrap=True)
        if checked is not None:
            print_check(console(), checked, improved)
    return bool(violated or any(row.failed for row in rows) or (checked is not None and checked.faults))


def check_document(outcome: CheckOutcome, improved: Sequence[Improvement]) -> dict[str, Any]:
    """A check as JSON."""
    return {
        "checked": outcome.checked,
        "trusted_bounds": outcome.trusted,
        "faults": [asdict(fault) for fault in outcome.faults],
        "improvements": [asdict(one) for one in improved],
    }


def print_check(out: Console, outcome: CheckOutcome, improved: Sequence[Improvement]) -> None:
    """A check for people."""
    for fault in outcome.faults:
        text = (
            f"REFUSED: {fault.method} ({fault.limit}, seed {fault.seed}) on {fault.instance}: {fault.problem}"
        )
        out.print(text, style="bold red", markup=False, soft_wrap=True)
    for one in improved:
        old = "no plan" if one.old_ns is None else f"{one.old_ns} ns"
        out.print(
            f"improved: {one.instance} from {old} to {one.new_ns} ns by {one.method}, evaluated; "
            f"bound {one.lower_bound_ns} ns",
            markup=False,
            soft_wrap=True,
        )
    if outcome.trusted:
        out.print(
            f"{outcome.trusted} bounds are the word of an exact method, better than those proved here",
            markup=False,
            soft_wrap=True,
        )
    out.print(f"{outcome.checked} plans evaluated again, {len(outcome.faults)} rows refused", markup=False)


def _print_tables(out: Console, rows: Sequence[BenchRow], everything: bool) -> None:
    groups = summarise(rows)
    # One blank between the columns: eight of them fit into eighty letters.
    _print_table(GAP_HEADINGS, map(gap_cells, groups), gap=1)
    if any(group.kind is not Kind.PLANNED for group in groups):
        out.print(REALISED_NOTE.replace("\\", ""), markup=False)
    of_steps = [group for group in groups if group.hit_rate is not None]
    if of_steps:
        out.print()
        _print_table(HORIZON_HEADINGS, map(horizon_cells, of_steps))
    out.print()
    _print_table(TIME_HEADINGS, map(time_cells, groups))
    if everything:
        out.print()
        _print_table(PROFILE_HEADINGS, profile_cells(rows), left=1)
        integrals = [
            (group.set, group.method, duration(group.primal_integral_sgm_ns))
            for group in groups
            if group.primal_integral_sgm_ns is not None
        ]
        if integrals:
            out.print()
            _print_table(("set", "method", "primal integral"), integrals)


def _print_table(
    headings: Sequence[str], lines: Iterable[Sequence[str]], *, left: int = 2, gap: int = 2
) -> None:
    table = plain_table(*headings, left=left, gap=gap)
    for line in lines:
        table.add_row(*line)
    print_table(table)


def _run(row: BenchRow) -> dict[str, Any]:
    return {
        "instance": row.instance,
        "method": row.method,
        "limit": row.limit,
        "seed": row.seed,
        "makespan_ns": row.makespan_ns,
        "lower_bound_ns": row.lower_bound_ns,
        "error": row.error or None,
    }
