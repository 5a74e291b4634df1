"""One horizon with its provenance, for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prescope.formulation import format_bytes, format_ns
from prescope.report.tables import pairs_table

if TYPE_CHECKING:
    from rich.table import Table

    from prescope.instances import HorizonFile


def horizon_table(file: HorizonFile) -> Table:
    """One horizon: its size, costs, what is known beforehand, and where it comes from."""
    horizon, bounds, provenance = file.horizon, file.bounds, file.provenance
    sizes = sorted(set(horizon.costs.expert_bytes))
    tokens = sorted({demand.batch_tokens for demand in horizon.demands})
    activated = sum(int((demand.counts > 0).sum()) for demand in horizon.demands)
    past = sum(map(len, horizon.history))
    bound = "not known"
    if bounds.lower_bound_ns is not None:
        bound = f"{format_ns(bounds.lower_bound_ns)} for all steps (by {bounds.lower_bound_by})"
    rows = [
        ("name", horizon.name),
        ("steps", str(horizon.steps)),
        ("layers x experts", f"{horizon.layers} x {horizon.experts}"),
        ("tokens per step", _span(tokens)),
        ("activated experts", f"{activated / horizon.steps:.1f} per step"),
        ("residents", str(sum(len(row) for row in horizon.residents))),
        ("slots", str(horizon.slots)),
        ("lookahead", f"{horizon.lookahead} layers"),
        ("weights rest in", horizon.tier.value),
        ("host computes", "yes" if horizon.host_computes else "no"),
        ("one expert", " to ".join(format_bytes(size) for size in dict.fromkeys((sizes[0], sizes[-1])))),
        ("link", f"{horizon.costs.link.bytes_per_s / 1e9:g} GB/s"),
        ("costs", horizon.costs.source),
        ("predictions", horizon.predicted[0].source if horizon.predicted else "none"),
        ("history", f"{past} steps in {len(horizon.history)} sequences" if past else "none"),
        ("lower bound", bound),
        ("source", provenance.source),
        ("made by", f"{provenance.generator or 'hand'} ({provenance.created_by}), seed {provenance.seed}"),
        ("notes", provenance.notes or "-"),
        ("sha256", file.sha256),
    ]
    return pairs_table(rows)


def _span(values: list[int]) -> str:
    return str(values[0]) if len(values) == 1 else f"{values[0]} to {values[-1]}"
