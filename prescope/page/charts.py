"""Charts of what is a table in the terminal: benchmarks, predictors' reports, horizons."""

from __future__ import annotations

from collections.abc import Iterator

from prescope.inspection import View, ViewKind, ViewTable
from prescope.page.document import Cell, ChartPanel

_MOST_BARS = 40


def charts_of(view: View) -> tuple[ChartPanel, ...]:
    """The charts of a view, none for kinds and tables that have none."""
    makers = {
        ViewKind.BENCH: _gaps,
        ViewKind.PREDICTION: _forecasts,
        ViewKind.HORIZON: _steps,
    }
    make = makers.get(view.kind)
    return () if make is None else tuple(chart for table in view.tables for chart in make(table))


def _gaps(table: ViewTable) -> Iterator[ChartPanel]:
    """Mean gap of every method, a chart for each set."""
    if not {"set", "method", "gap_mean_share"} <= set(table.columns):
        return
    names, methods = _column(table, "set"), _column(table, "method")
    series = [("mean", _column(table, "gap_mean_share"))]
    if "gap_max_share" in table.columns:
        series.append(("worst", _column(table, "gap_max_share")))
    for name in dict.fromkeys(names):
        rows = [at for at, found in enumerate(names) if found == name][:_MOST_BARS]
        yield ChartPanel(
            title=f"Gap to the lower bound, {name}",
            note="shorter is better",
            kind="bar",
            x=tuple(str(methods[at]) for at in rows),
            series=tuple((word, tuple(_percent(cells[at]) for at in rows)) for word, cells in series),
            y_label="% above the proved lower bound",
        )


def _forecasts(table: ViewTable) -> Iterator[ChartPanel]:
    """Recall by how far ahead, and the reliability of what was said."""
    if {"predictor", "layers_ahead", "recall"} <= set(table.columns):
        who, ahead = _column(table, "predictor"), _column(table, "layers_ahead")
        value = dict(zip(zip(who, ahead, strict=True), _column(table, "recall"), strict=True))
        places = sorted({cell for cell in ahead if isinstance(cell, int)})
        yield ChartPanel(
            title=f"Recall, {table.title}",
            note="of the activated experts, the share among those ranked first",
            kind="line",
            x=tuple(places),
            series=tuple(
                (str(name), tuple(_percent(value.get((name, place))) for place in places))
                for name in dict.fromkeys(who)
            ),
            x_label="layers ahead",
            y_label="%",
        )
    if {"said_share", "happened_share"} <= set(table.columns):
        pairs = [
            (said, happened)
            for said, happened in zip(
                map(_percent, _column(table, "said_share")),
                map(_percent, _column(table, "happened_share")),
                strict=True,
            )
            if said is not None
        ]
        pairs.sort(key=lambda pair: pair[0])
        said = tuple(pair[0] for pair in pairs)
        yield ChartPanel(
            title=table.title,
            note="a calibrated predictor lies on the dashed line",
            kind="line",
            x=said,
            series=(("happened", tuple(pair[1] for pair in pairs)), ("as said", said)),
            x_label="said, %",
            y_label="happened, %",
        )


def _steps(table: ViewTable) -> Iterator[ChartPanel]:
    """Activated experts from step to step."""
    if not {"step", "activated"} <= set(table.columns):
        return
    yield ChartPanel(
        title="Activated experts",
        kind="line",
        x=tuple(cell for cell in _column(table, "step") if isinstance(cell, int)),
        series=(("activated", tuple(_number(cell) for cell in _column(table, "activated"))),),
        x_label="step",
        y_label="experts of all layers",
    )


def _column(table: ViewTable, name: str) -> list[Cell]:
    at = table.columns.index(name)
    return [row[at] for row in table.rows]


def _number(cell: Cell) -> float | None:
    return float(cell) if isinstance(cell, (int, float)) else None


def _percent(cell: Cell) -> float | None:
    number = _number(cell)
    return None if number is None else 100 * number
