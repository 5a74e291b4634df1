"""An evaluation of predictors as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from prescope.evaluation.cells import Cell, HorizonSummary
    from prescope.predictor.evaluation import Bin


def draw_recall(cells: Sequence[Cell], *, ax: Axes) -> None:
    """Draw the top-k recall of every layer, one line per horizon, on given axes.

    Parameters
    ----------
    cells
        Layers and horizons of one predictor; those said before the first gate are left out.
    ax
        Axes of matplotlib.
    """
    for horizon in sorted({cell.horizon for cell in cells}):
        mine = [cell for cell in cells if cell.horizon == horizon and cell.layer >= horizon]
        points = [(cell.layer, cell.measures.recall) for cell in mine if cell.measures.recall is not None]
        if points:
            ax.plot(*zip(*points, strict=True), marker=".", linewidth=1, label=f"{horizon} ahead")
    ax.locator_params(axis="x", integer=True)
    ax.set_xlabel("layer predicted")
    ax.set_ylabel("top-k recall")
    ax.set_ylim(0, 1)
    ax.legend(fontsize="small")


def draw_recall_by_horizon(rows: Sequence[tuple[str, Sequence[HorizonSummary]]], *, ax: Axes) -> None:
    """Draw the mean top-k recall over the horizon, one line per predictor, on given axes.

    Parameters
    ----------
    rows
        Names with the summaries of their horizons.
    ax
        Axes of matplotlib.
    """
    for name, summaries in rows:
        points = [(one.horizon, one.mean.recall) for one in summaries if one.mean.recall is not None]
        if points:
            ax.plot(*zip(*points, strict=True), marker=".", label=name)
    ax.locator_params(axis="x", integer=True)
    ax.set_xlabel("layers ahead")
    ax.set_ylabel("top-k recall")
    ax.set_ylim(0, 1)
    ax.legend(fontsize="small")


def draw_reliability(rows: Sequence[tuple[str, Sequence[Bin]]], *, ax: Axes) -> None:
    """Draw how often an expert was needed against how likely that was said to be, on given axes.

    Parameters
    ----------
    rows
        Names with their bins; the closer to the diagonal the better.
    ax
        Axes of matplotlib.
    """
    ax.plot((0, 1), (0, 1), color="black", linewidth=0.8, linestyle=":")
    for name, bins in rows:
        if bins:
            ax.plot([one.said for one in bins], [one.happened for one in bins], marker=".", label=name)
    ax.set_xlabel("probability said that an expert is needed")
    ax.set_ylabel("share that was needed")
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    ax.legend(fontsize="small")
