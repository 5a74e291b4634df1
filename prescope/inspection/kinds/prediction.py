"""A predictor's report, the answer of ``prescope evaluate --json``, as a view: tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from prescope.inspection.view import LayerMap, View, ViewKind, ViewTable
from prescope.instances.limits import MAX_LAYERS

_HORIZON = ("recall", "wide_recall", "brier_skill", "calibration_error", "soft_count_error", "event_error")
_PLAN = ("policy", "predictor", "realised_ns", "no_prefetch_ns", "clairvoyant_ns", "useful", "wasted", "late")


def prediction_view(path: Path, document: dict[str, Any]) -> View:
    """View of a report of predictors."""
    tables = [_horizons(document, batch) for batch in _batches(document)]
    plans = document["plans"]
    for batch in sorted({row["batch"] for row in plans}):
        mine = [row for row in plans if row["batch"] == batch]
        tables.append(
            ViewTable(
                title=f"planning, batch {batch}",
                columns=(*_PLAN, "saved_share"),
                rows=tuple((*(row[name] for name in _PLAN), row["gain"]) for row in mine),
            )
        )
    return View(
        kind=ViewKind.PREDICTION,
        path=str(path),
        title=f"{document['predictor']} on {document['model']}",
        facts={
            "predictor": document["predictor"],
            "model": document["model"],
            "layers": document["layers"],
            "experts": document["experts"],
            "top_k": document["top_k"],
            "judged_sequences": document["judged_sequences"],
            "learned_sequences": document["learned_sequences"],
            "warning": document["warning"],
        },
        provenance={"trace": str(document["trace"]), "costs": str(document["preset"])},
        tables=(*tables, *_reliability(document)),
        maps=_recall_map(document),
    )


def _batches(document: dict[str, Any]) -> list[int]:
    return sorted({scores["batch"] for one in document["predictors"] for scores in one["batches"]})


def _horizons(document: dict[str, Any], batch: int) -> ViewTable:
    rows = []
    for one in document["predictors"]:
        for scores in one["batches"]:
            if scores["batch"] == batch:
                rows += [
                    (one["name"], mean["horizon"], *(mean[name] for name in _HORIZON), scores["gate_ns"])
                    for mean in scores["horizons"]
                ]
    return ViewTable(
        title=f"forecasts, batch {batch}",
        columns=("predictor", "layers_ahead", *_HORIZON, "gate_ns"),
        rows=tuple(rows),
    )


def _reliability(document: dict[str, Any]) -> list[ViewTable]:
    for one in document["predictors"][:1]:
        for scores in one["batches"][:1]:
            for mean in scores["horizons"][:1]:
                return [
                    ViewTable(
                        title=f"said and happened: {one['name']}, batch {scores['batch']}, 1 layer ahead",
                        columns=("forecasts", "said_share", "happened_share"),
                        rows=tuple(
                            (part["forecasts"], part["said"], part["happened"])
                            for part in mean["reliability"]
                        ),
                    )
                ]
    return []


def _recall_map(document: dict[str, Any]) -> tuple[LayerMap, ...]:
    """Recall of the predictor by layer and horizon; what was not judged is 0."""
    for one in document["predictors"][:1]:
        for scores in one["batches"][:1]:
            cells = [cell for cell in scores["cells"] if cell["recall"] is not None]
            if cells:
                layers, most = document["layers"], max(cell["horizon"] for cell in cells)
                if not (1 <= layers <= MAX_LAYERS and 1 <= most <= MAX_LAYERS):
                    raise ValueError(f"expected 1 to {MAX_LAYERS} layers, got {layers} and {most} ahead")
                values = np.zeros((layers, most))
                for cell in cells:
                    values[cell["layer"], cell["horizon"] - 1] = cell["recall"]
                about = f"top-k recall of {one['name']}: a row a layer, a column a layer ahead"
                return (LayerMap(name="recall", about=about, values=values),)
    return ()
