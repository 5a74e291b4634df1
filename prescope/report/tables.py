"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from prescope.formulation.units import format_bytes, format_ns

if TYPE_CHECKING:
    from rich.table import Table

    from prescope.instances import InstanceFile, LibraryEntry


def plain_table(*columns: str, left: int = 1, gap: int = 2, fold: bool = True) -> Table:
    """An empty table without frames.

    Parameters
    ----------
    columns
        Headers.
    left
        The first so many are aligned to the left, the others to the right.
    gap
        Spaces between columns.
    fold
        Whether the left ones may be broken into several lines where space is short.
    """
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    for number, column in enumerate(columns):
        at_left = number < left
        table.add_column(
            column, justify="left" if at_left else "right", overflow="fold", no_wrap=not (at_left and fold)
        )
    return table


def pairs_table(rows: Iterable[tuple[str, str]]) -> Table:
    """Names and values, one pair a line."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, Text(value))
    return table


def library_table(entries: Sequence[LibraryEntry]) -> Table:
    """The library, one instance a line."""
    table = plain_table("name", "set", "layers", "experts", "tokens", "bound", "best", "gap", "by", left=2)
    for entry in entries:
        gap = None
        if entry.best_ns is not None and entry.lower_bound_ns:
            gap = entry.best_ns / entry.lower_bound_ns - 1
        table.add_row(
            entry.name,
            entry.set,
            str(entry.layers),
            str(entry.experts),
            str(entry.tokens) if entry.steps is None else f"{entry.tokens} x{entry.steps}",
            _ns(entry.lower_bound_ns),
            _ns(entry.best_ns) + (" *" if entry.optimum_ns is not None else ""),
            "-" if gap is None else f"{gap:.3%}",
            entry.best_by or "-",
        )
    table.caption = "* proven optimal"
    if any(entry.steps is not None for entry in entries):
        table.caption += "; tokens xSTEPS: a horizon, whose times are totals of its steps"
    return table


def instance_table(file: InstanceFile) -> Table:
    """One instance with its provenance."""
    instance, bounds, provenance = file.instance, file.bounds, file.provenance
    sizes = sorted(set(instance.costs.expert_bytes))
    rows = [
        ("name", instance.name),
        ("layers x experts", f"{instance.layers} x {instance.experts}"),
        ("tokens", str(instance.demand.batch_tokens)),
        ("activated experts", str(int((instance.demand.counts > 0).sum()))),
        ("residents", str(sum(len(row) for row in instance.residents))),
        ("slots", str(instance.slots)),
        ("lookahead", f"{instance.lookahead} layers"),
        ("weights rest in", instance.tier.value),
        ("host computes", "yes" if instance.host_computes else "no"),
        ("one expert", " to ".join(format_bytes(size) for size in dict.fromkeys((sizes[0], sizes[-1])))),
        ("link", f"{instance.costs.link.bytes_per_s / 1e9:g} GB/s"),
        ("costs", instance.costs.source),
        ("prediction", "none" if instance.predicted is None else instance.predicted.source),
        ("optimum", _proved(bounds.optimum_ns, bounds.optimum_by)),
        ("lower bound", _proved(bounds.lower_bound_ns, bounds.lower_bound_by)),
        ("source", provenance.source),
        ("made by", f"{provenance.generator or 'hand'} ({provenance.created_by}), seed {provenance.seed}"),
        ("notes", provenance.notes or "-"),
        ("sha256", file.sha256),
    ]
    return pairs_table(rows)


def _ns(value: int | None) -> str:
    return "-" if value is None else format_ns(value)


def _proved(value: int | None, by: str | None) -> str:
    return "not known" if value is None else f"{format_ns(value)} (by {by})"
