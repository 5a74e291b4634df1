"""Steps of a run as pictures; each draws on axes it is given, in a notebook or on a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from prescope.formulation import Lane
from prescope.formulation.units import format_bytes, format_ns
from prescope.inspection import StepView, View, counters, demand_rows, spent, utilisation, waterfall

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_step_times(view: View, *, ax: Axes) -> None:
    """Draw how long every step of a run took, one line for each of its schedules, in milliseconds.

    Parameters
    ----------
    view
        A recording, or the plan of a horizon.
    ax
        Axes of matplotlib.

    Raises
    ------
    ValueError
        When the view has no steps.
    """
    _require_steps(view)
    for name in dict.fromkeys(name for step in view.steps for name in step.schedules):
        mine = [step for step in view.steps if name in step.schedules]
        times = [step.schedules[name].makespan_ns / 1e6 for step in mine]
        ax.plot([step.index for step in mine], times, marker=".", linewidth=1, label=name)
    prefills = [step.index for step in view.steps if step.phase == "prefill"]
    for number, index in enumerate(prefills):
        ax.axvline(index, color="black", linewidth=0.5, alpha=0.4, label=None if number else "prefill")
    ax.set_xlabel("step")
    ax.set_ylabel("ms")
    ax.set_ylim(bottom=0)
    ax.locator_params(axis="x", integer=True)
    ax.legend(fontsize="small")


def draw_waterfall(step: StepView, *, ax: Axes) -> None:
    """Draw a step's time as a sum, from its proved lower bound up to what happened, in milliseconds.

    Parameters
    ----------
    step
        A step with its instance and plan.
    ax
        Axes of matplotlib.

    Raises
    ------
    ValueError
        When there is no waterfall of this step.
    """
    found = waterfall(step)
    if found is None:
        raise ValueError(f"expected a step with an instance and a plan of its own, got none for {step.name}")
    shown = [part for part in found.parts if part.ns]
    before_ns = 0
    for row, part in enumerate(shown):
        colour = "#9aa0a6" if row == 0 else "#ea4335" if part.ns > 0 else "#34a853"
        ax.barh(row, part.ns / 1e6, left=before_ns / 1e6, color=colour)
        before_ns += part.ns
        ax.text(before_ns / 1e6, row, f" {format_ns(part.ns)}", va="center", fontsize="small")
    ax.barh(len(shown), found.makespan_ns / 1e6, color="#3c4043")
    ax.text(
        found.makespan_ns / 1e6, len(shown), f" {format_ns(found.makespan_ns)}", va="center", fontsize="small"
    )
    ax.set_yticks(range(len(shown) + 1), [*(part.name for part in shown), "makespan"])
    ax.invert_yaxis()
    ax.margins(x=0.2)
    ax.set_xlabel("ms")


def draw_spent(view: View, *, ax: Axes) -> None:
    """Draw where the time of every step went on the device, stacked, in milliseconds.

    Parameters
    ----------
    view
        A recording, or the plan of a horizon.
    ax
        Axes of matplotlib.

    Raises
    ------
    ValueError
        When the view has no steps.
    """
    _require_steps(view)
    parts = [spent(step.schedule) for step in view.steps]
    names = list(dict.fromkeys(part.name for row in parts for part in row))
    table = np.array([[{one.name: one.ns for one in row}.get(name, 0) for row in parts] for name in names])
    ax.stackplot([step.index for step in view.steps], table / 1e6, labels=names, step="mid")
    ax.set_xlabel("step")
    ax.set_ylabel("ms")
    ax.locator_params(axis="x", integer=True)
    ax.legend(fontsize="x-small", loc="upper left", bbox_to_anchor=(1.0, 1.0))


def draw_utilisation(step: StepView, *, ax: Axes, buckets: int = 60) -> None:
    """Draw how busy link, device and host were over a step, in percent.

    Parameters
    ----------
    step
        The step.
    ax
        Axes of matplotlib.
    buckets
        Equal pieces of the makespan.
    """
    busy = utilisation(step.schedule, buckets)
    edges = np.linspace(0, step.schedule.makespan_ns / 1e6, buckets + 1)
    for lane in Lane:
        if lane in busy:
            ax.stairs(100 * np.asarray(busy[lane]), edges, label=lane.value)
    ax.set_ylim(0, 102)
    ax.set_xlabel("ms")
    ax.set_ylabel("busy, %")
    ax.legend(fontsize="small")


def draw_counter(step: StepView, name: str, *, ax: Axes) -> None:
    """Draw one counter of a step, such as ``"slots used"``.

    Parameters
    ----------
    step
        The step.
    name
        Of the counter.
    ax
        Axes of matplotlib.

    Raises
    ------
    ValueError
        When there is no counter of that name; the message lists them.
    """
    known = {one.name: one for one in counters(step)}
    if name not in known:
        raise ValueError(f"expected a counter among {', '.join(known)}, got {name!r}")
    counter = known[name]
    times = [0.0, *(time / 1e6 for time in counter.times_ns), step.schedule.makespan_ns / 1e6]
    values = [0, *counter.values, counter.values[-1] if counter.values else 0]
    ax.step(times, values, where="post")
    if counter.unit == "bytes":
        ax.yaxis.set_major_formatter(lambda value, _: format_bytes(round(value)))
    ax.set_xlabel("ms")
    ax.set_ylabel(name)


def draw_demand(step: StepView, *, ax: Axes) -> None:
    """Draw how many experts of each layer were expected to be needed and how many were.

    Parameters
    ----------
    step
        A step with forecasts and its demand.
    ax
        Axes of matplotlib.

    Raises
    ------
    ValueError
        When the step has no forecasts.
    """
    rows = demand_rows(step)
    if not rows:
        raise ValueError(f"expected a step with forecasts and demand, got none for {step.name}")
    layers = [row.layer for row in rows]
    ax.plot(layers, [row.activated for row in rows], marker=".", label="needed")
    ax.plot(layers, [row.expected_activated for row in rows], marker=".", linestyle=":", label="expected")
    ax.set_ylim(bottom=0)
    ax.set_xlabel("layer")
    ax.set_ylabel("experts")
    ax.locator_params(axis="x", integer=True)
    ax.legend(fontsize="small")


def draw_residency(view: View, *, ax: Axes) -> None:
    """Draw in how many steps of a run each expert was resident, as a map of layers and experts, in percent.

    Parameters
    ----------
    view
        A recording, or the plan of a horizon.
    ax
        Axes of matplotlib.

    Raises
    ------
    ValueError
        When no step knows its residents.
    """
    _require_steps(view)
    counted = np.zeros((0, 0))
    steps = 0
    for step in view.steps:
        if step.instance is None:
            continue
        if not steps:
            counted = np.zeros((step.instance.layers, step.instance.experts))
        steps += 1
        for layer, row in enumerate(step.instance.residents):
            counted[layer, list(row)] += 1
    if not steps:
        raise ValueError(f"expected steps with residents, got none in {view.path}")
    image = ax.imshow(100 * counted / steps, aspect="auto", vmin=0, vmax=100, cmap="viridis")
    ax.set_xlabel("expert")
    ax.set_ylabel("layer")
    ax.figure.colorbar(image, ax=ax, label="resident in % of the steps")


def _require_steps(view: View) -> None:
    if not view.steps:
        raise ValueError(f"expected a file with steps, got {view.kind.value} in {view.path}")
