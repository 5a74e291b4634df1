"""The files of a what-if: CSV, JSON, a picture and a page, each whole or not at all."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prescope.formulation import Tier
from prescope.instances._atomic import atomic_file
from prescope.whatif.outcome import DOUBLING, Sweep, outcome_row
from prescope.whatif.point import Lever
from prescope.whatif.run import WhatIf
from prescope.whatif.words import lever_text, sentences, value_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from prescope.page import PageDocument

CSV_NAME, JSON_NAME, PNG_NAME, HTML_NAME = "whatif.csv", "whatif.json", "whatif.png", "whatif.html"


def write_files(folder: Path, found: WhatIf, document: dict[str, Any]) -> tuple[str, ...]:
    """Write all files into a folder; returns their names. Without matplotlib there is no picture.

    Parameters
    ----------
    folder
        Exists.
    found
        What to write.
    document
        The answer of ``--json``.
    """
    from prescope.page import write_document

    with atomic_file(folder / CSV_NAME) as stream:
        stream.write(csv_text(found).encode())
    with atomic_file(folder / JSON_NAME) as stream:
        stream.write((json.dumps(document, indent=1, allow_nan=False) + "\n").encode())
    write_document(page_of(found), folder / HTML_NAME)
    try:
        picture = draw(found)
    except ImportError:
        return CSV_NAME, JSON_NAME, HTML_NAME
    with atomic_file(folder / PNG_NAME) as stream:
        picture.savefig(stream, format="png", dpi=110)
    return CSV_NAME, JSON_NAME, HTML_NAME, PNG_NAME


def csv_text(found: WhatIf) -> str:
    """A line per point."""
    rows = [outcome_row(one) for one in found.outcomes]
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {name: "none" if value is None else value for name, value in row.items()} for row in rows
    )
    return text.getvalue()


def draw(found: WhatIf) -> Figure:
    """All sweeps in one figure, three in a row; of a grid also its first two levers together."""
    from matplotlib.figure import Figure

    from prescope.whatif.plots import draw_grid, draw_sweep

    grid = found.settings.grid and len(found.sweeps) > 1
    number = max(1, len(found.sweeps) + grid)
    columns = min(3, number)
    rows = -(-number // columns)
    figure = Figure(figsize=(5 * columns, 3.8 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for sweep, ax in zip(found.sweeps, axes, strict=False):
        draw_sweep(sweep, ax=ax, tier=found.machine.tier)
    if grid:
        first, second = (sweep.lever for sweep in found.sweeps[:2])
        draw_grid(
            _table(found, first, second), first, second, ax=axes[len(found.sweeps)], tier=found.machine.tier
        )
    for ax in axes[len(found.sweeps) + grid :]:
        ax.set_axis_off()
    return figure


def _table(found: WhatIf, first: Lever, second: Lever) -> dict[tuple[float, float], float]:
    """Tokens per second by two levers' values, the others as they are."""
    now = found.settings.now
    table = {}
    for one in found.outcomes:
        here = [one.point.value(lever) for lever in (first, second)]
        if now.moved(first, here[0]).moved(second, here[1]) == one.point:
            down, across = (-1.0 if value is None else float(value) for value in here)
            table[down, across] = one.tokens_per_s
    return table


def page_of(found: WhatIf) -> PageDocument:
    """The page: sentences, a chart and a table per sweep."""
    from importlib.metadata import version

    from prescope.page import ChartPanel, PageDocument, TablePanel

    tier = found.machine.tier
    panels: list[Any] = []
    for sweep in found.sweeps:
        name = lever_text(sweep.lever, tier)
        x = tuple(
            float(value or 0) if sweep.lever in DOUBLING else value_text(sweep.lever, value)
            for value in _numbers(sweep)
        )
        knee = sweep.knee.index if sweep.knee is not None else None
        panels.append(
            ChartPanel(
                title=f"Tokens/s over {name}",
                kind="line" if sweep.lever in DOUBLING else "bar",
                x=x,
                series=(("tokens/s", tuple(one.tokens_per_s for one in sweep.outcomes)),),
                x_label=name + _UNITS[sweep.lever],
                y_label="tokens/s",
                note="Pointed out: where doubling begins to bring less than 5 %." if knee is not None else "",
                mark=knee,
            )
        )
        panels.append(
            TablePanel(
                title=name[0].upper() + name[1:],
                columns=(name, "tokens/s", "mean step ms", "p99 step ms", "copied MB/token"),
                rows=tuple(
                    (
                        value_text(sweep.lever, one.point.value(sweep.lever))
                        + (" (now)" if index == sweep.now else ""),
                        round(one.tokens_per_s, 3),
                        one.mean_ns / 1e6,
                        one.p99_ns / 1e6,
                        one.copied_bytes_per_token / 1e6,
                    )
                    for index, one in enumerate(sweep.outcomes)
                ),
            )
        )
    chosen = found.settings
    return PageDocument(
        title="What if",
        kind="what-if",
        facts=(
            ("machine", found.machine.name),
            ("experts", "on disk" if tier is Tier.DISK else "in host memory"),
            ("now", f"{found.now.tokens_per_s:.4g} tokens/s"),
            ("steps", f"{chosen.steps} behind {chosen.warm} to warm up"),
        ),
        provenance=(
            ("prescope", version("prescope")),
            ("costs", found.machine.costs.source),
            ("seed", str(chosen.seed)),
        ),
        notes=("All times are simulated.", *sentences(found)),
        panels=tuple(panels),
    )


_UNITS = {
    Lever.MEMORY: ", GiB",
    Lever.LINK: ", GB/s",
    Lever.SPEED: ", times",
    Lever.BATCH: "",
    Lever.RECALL: "",
}


def _numbers(sweep: Sweep) -> tuple[float | None, ...]:
    unit = {Lever.MEMORY: 2**30, Lever.LINK: 10**9}.get(sweep.lever, 1)
    return tuple(None if value is None else value / unit for value in sweep.values)
