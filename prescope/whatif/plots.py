"""Plots of a what-if; each draws on axes it is given."""

from __future__ import annotations

from math import log2
from typing import TYPE_CHECKING

from prescope.formulation import Tier
from prescope.whatif.outcome import DOUBLING, Sweep
from prescope.whatif.point import Lever
from prescope.whatif.words import lever_text, value_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_LABELS = 12
# From the highest point to the top.
_ROOM = 1.08
_FAST, _TAIL, _KNEE = "#1f77b4", "#d62728", "#7f7f7f"


def draw_sweep(sweep: Sweep, *, ax: Axes, tier: Tier = Tier.RAM) -> None:
    """Tokens per second over one lever, with the 99th percentile of a step on a second axis.

    A full dot is the machine as it is, a dashed line the knee.

    Parameters
    ----------
    sweep
        What to draw.
    ax
        Where.
    tier
        For the lever's name.
    """
    places: list[float] = list(range(len(sweep.outcomes)))
    labels = [value_text(sweep.lever, value) for value in sweep.values]
    if sweep.lever in DOUBLING:
        places = [float(value or 0) for value in sweep.values]
        ax.set_xscale("log", base=2)
    speeds = [one.tokens_per_s for one in sweep.outcomes]
    tails = [one.p99_ns / 1e6 for one in sweep.outcomes]
    ax.plot(places, speeds, marker="o", markerfacecolor="white", color=_FAST, label="tokens/s")
    ax.plot(places[sweep.now], speeds[sweep.now], marker="o", color=_FAST, linestyle="none", label="now")
    ax.set_ylim(0, _ROOM * max(speeds))
    ax.set_ylabel("tokens/s", color=_FAST)
    ax.set_xlabel(lever_text(sweep.lever, tier))
    shown = _apart(places, sweep.now, in_octaves=sweep.lever in DOUBLING)
    ax.set_xticks(
        [places[at] for at in shown], [labels[at] for at in shown], rotation=30, ha="right", fontsize="small"
    )
    ax.minorticks_off()
    if sweep.knee is not None and sweep.knee.value is not None:
        ax.axvline(sweep.knee.value, linestyle="--", linewidth=1, color=_KNEE, label="knee")
    beside = ax.twinx()
    beside.plot(places, tails, marker=".", linewidth=1, color=_TAIL, label="p99 of a step")
    beside.set_ylim(0, _ROOM * max(tails))
    beside.set_ylabel("p99 of a step, ms", color=_TAIL)
    lines, names = ax.get_legend_handles_labels()
    more, more_names = beside.get_legend_handles_labels()
    ax.legend(lines + more, names + more_names, fontsize="x-small", loc="lower right")


def _apart(places: list[float], now: int, *, in_octaves: bool) -> list[int]:
    """Places whose labels do not run into each other: the machine as it is, then from the first on."""
    spots = [log2(place) for place in places] if in_octaves else places
    least = (spots[-1] - spots[0]) / _MOST_LABELS
    shown = [now]
    for at, spot in enumerate(spots):
        if all(abs(spot - spots[other]) > least for other in shown):
            shown.append(at)
    return sorted(shown)


def draw_grid(
    speeds: dict[tuple[float, float], float], first: Lever, second: Lever, *, ax: Axes, tier: Tier = Tier.RAM
) -> None:
    """Tokens per second over two levers as a table of colours.

    Parameters
    ----------
    speeds
        Tokens per second by the two values; ``-1`` stands for no predictor.
    first, second
        Levers down and across.
    ax
        Where.
    tier
        For the levers' names.
    """
    rows = sorted({key[0] for key in speeds})
    columns = sorted({key[1] for key in speeds})
    table = [[speeds[row, column] for column in columns] for row in rows]
    ax.imshow(table, origin="lower", aspect="auto", cmap="viridis")
    middle = (max(map(max, table)) + min(map(min, table))) / 2
    for y, row in enumerate(table):
        for x, speed in enumerate(row):
            colour = "black" if speed > middle else "white"
            ax.text(x, y, f"{speed:.3g}", ha="center", va="center", fontsize="x-small", color=colour)
    for axis, lever, values in ((ax.yaxis, first, rows), (ax.xaxis, second, columns)):
        axis.set_ticks(
            range(len(values)), [value_text(lever, None if value < 0 else value) for value in values]
        )
        axis.set_label_text(lever_text(lever, tier))
    ax.tick_params(axis="x", rotation=30)
    ax.set_title("tokens/s", fontsize="medium")
