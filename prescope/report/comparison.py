"""Policies side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prescope.formulation.units import format_bytes
from prescope.report.tables import plain_table

if TYPE_CHECKING:
    from rich.table import Table

    from prescope.compare import Comparison, Row

_COLUMNS = (
    "policy",
    "tokens",
    "planned",
    "simulated",
    "executed",
    "faster",
    "moved",
    "hits",
    "prefetches",
)


def comparison_heading(result: Comparison) -> str:
    """Under which conditions the policies ran, in a few lines."""
    first = result.rows[0]
    how = {
        "cpu": f"executed in slow motion on this CPU (emulated, {result.dilation:.0f} times slower)",
        "sim": "executed in virtual time by the event simulator",
    }.get(result.backend, result.backend)
    return (
        f"{result.model} model, batch {first.batch}, costs of {result.preset}, "
        f"link {first.link_bytes_per_s / 1e9:g} GB/s, predictor {first.predictor}\n"
        f"{result.residents} of {result.experts} experts resident + {result.slots} slots "
        f"({format_bytes(result.expert_memory_bytes)} of this model); {how}\n"
        "times in modelled ms; faster: than on-demand, simulated; prefetches: useful/wasted/late"
    )


def comparison_rows(result: Comparison) -> list[tuple[str, ...]]:
    """The table's cells as text, header first."""
    base = next((row for row in result.rows if row.policy == "on-demand"), None)
    return [_COLUMNS, *(_cells(row, base) for row in result.rows)]


def comparison_table(result: Comparison) -> Table:
    """The table for the terminal."""
    header, *rows = comparison_rows(result)
    table = plain_table(*header, left=2, gap=1, fold=False)
    for row, cells in zip(result.rows, rows, strict=True):
        table.add_row(*cells, style=None if row.tokens_equal else "bold red")
    notes = [f"{row.label}: not quoted, {row.refused}" for row in result.rows if row.refused]
    notes += [f"{row.label}: {text}" for row in result.rows for text in row.degraded]
    if notes:
        table.caption = "\n".join(notes)
        table.caption_justify = "left"
    return table


def comparison_markdown(result: Comparison) -> str:
    """The table in Markdown."""
    header, *rows = comparison_rows(result)
    lines = [header, ("---", "---", *("---:",) * (len(header) - 2)), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cells(row: Row, base: Row | None) -> tuple[str, ...]:
    totals = row.totals
    speedup = "-"
    if base is not None and row.simulated_ns:
        speedup = f"{base.simulated_ns / row.simulated_ns:.2f}x"
    return (
        row.label,
        "equal" if row.tokens_equal else "DIFFERENT",
        _ms(totals.planned_ns),
        _ms(row.simulated_ns),
        _ms(row.executed_ns),
        speedup,
        format_bytes(totals.bytes_moved),
        "-" if totals.hit_rate is None else f"{totals.hit_rate:.0%}",
        f"{totals.prefetch_useful}/{totals.prefetch_wasted}/{totals.prefetch_late}",
    )


def _ms(value: int | None) -> str:
    return "-" if value is None else f"{value / 1e6:.1f}"
