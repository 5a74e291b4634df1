"""Recorded routing as a view: how popular each expert is."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from prescope.inspection.view import LayerMap, View, ViewKind, ViewTable
from prescope.instances import popularity, read_trace


def routing_view(path: Path) -> View:
    """View of a routing trace; raises ``ValueError`` like `prescope.instances.read_trace`."""
    trace = read_trace(path)
    shares = popularity(trace)
    ranked = -np.sort(-shares, axis=1)
    ranked /= np.maximum(ranked.sum(axis=1, keepdims=True), 1e-300)
    quarter = max(trace.meta.experts // 4, 1)
    # Uniform routing would give the hottest quarter a quarter of the load.
    hottest = ranked[:, :quarter].sum(axis=1)
    return View(
        kind=ViewKind.ROUTING,
        path=str(path),
        title=trace.meta.model,
        facts={
            "model": trace.meta.model,
            "tokens": trace.tokens,
            "sequences": trace.sequences,
            "layers": trace.layers,
            "experts": trace.meta.experts,
            "top_k": trace.meta.top_k,
            "hottest_quarter_share": float(hottest.mean()),
        },
        provenance={"source": trace.meta.source, "notes": trace.meta.notes},
        tables=(
            ViewTable(
                title="load of the most popular experts",
                columns=("layer", "hottest_share", "hottest_quarter_share", "hottest_half_share", "unused"),
                rows=tuple(
                    (
                        layer,
                        float(row[0]),
                        float(hottest[layer]),
                        float(row[: max(row.shape[0] // 2, 1)].sum()),
                        int((row == 0).sum()),
                    )
                    for layer, row in enumerate(ranked)
                ),
            ),
        ),
        maps=(LayerMap(name="popularity", about="share of the tokens that chose an expert", values=shares),),
    )
