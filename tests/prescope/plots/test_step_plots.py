"""Pictures of steps show the numbers of the model behind them."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from tiny_instances import make_instance, seeded

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402

from prescope import evaluate, plots, solve  # noqa: E402
from prescope.formulation import Forecast, Instance  # noqa: E402
from prescope.inspection import StepView, View, ViewKind, counters, demand_rows, spent, waterfall  # noqa: E402


def step_of_seed(seed: int, index: int) -> StepView:
    instance: Instance = make_instance(seeded(seed), host=True)
    plan = solve(instance, method="dp-fast").plan
    assert plan is not None
    chance = (instance.demand.counts > 0) * 0.5
    forecasts = tuple(Forecast(expected_tokens=row, probability=row) for row in chance)
    return StepView(
        index=index,
        name=f"step {index}",
        schedules={"planned": evaluate(instance, plan)},
        instance=instance,
        plan=plan,
        phase="prefill" if index == 0 else "decode",
        forecasts=forecasts,
    )


@pytest.fixture(scope="module")
def view() -> View:
    shape = make_instance(seeded(3), host=True)
    alike = [
        seed
        for seed in range(400)
        if (found := make_instance(seeded(seed), host=True)).layers == shape.layers
        and found.experts == shape.experts
    ]
    steps = tuple(step_of_seed(seed, index) for index, seed in enumerate(alike[:4]))
    return View(kind=ViewKind.RECORDING, path="run.json", title="run", facts={}, steps=steps)


@pytest.fixture
def ax() -> Iterator[Axes]:
    figure, axes = plt.subplots()
    yield axes
    figure.canvas.draw()  # everything that is only noticed when drawing
    plt.close(figure)


def test_step_times(view: View, ax: Axes) -> None:
    plots.draw_step_times(view, ax=ax)
    drawn = ax.get_lines()[0].get_ydata()
    assert np.allclose(drawn, [step.schedule.makespan_ns / 1e6 for step in view.steps])


def test_a_fall_begins_where_the_one_before_ended(view: View, ax: Axes) -> None:
    step = view.steps[1]
    slow = replace(step.schedule, makespan_ns=step.schedule.makespan_ns + 5_000_000)
    plots.draw_waterfall(replace(step, schedules={"planned": step.schedule, "executed": slow}), ax=ax)
    *parts, total = ax.patches
    assert len(parts) > 1
    ends = [0.0, *(bar.get_x() + bar.get_width() for bar in parts)]
    assert np.allclose([bar.get_x() for bar in parts], ends[:-1]) and total.get_x() == 0
    assert np.isclose(ends[-1], total.get_width())


def test_waterfall_bars_add_up(view: View, ax: Axes) -> None:
    step = view.steps[1]
    plots.draw_waterfall(step, ax=ax)
    found = waterfall(step)
    assert found is not None
    *parts, total = [bar.get_width() for bar in ax.patches]
    assert np.isclose(sum(parts), total) and np.isclose(total, found.makespan_ns / 1e6)


def test_spent_adds_up_to_the_makespan(view: View, ax: Axes) -> None:
    plots.draw_spent(view, ax=ax)
    top = max(path.vertices[:, 1].max() for one in ax.collections for path in one.get_paths())
    assert np.isclose(top, max(step.schedule.makespan_ns for step in view.steps) / 1e6)
    names = {part.name for step in view.steps for part in spent(step.schedule)}
    assert {text.get_text() for text in ax.get_legend().get_texts()} == names


def test_utilisation_is_a_percentage(view: View, ax: Axes) -> None:
    plots.draw_utilisation(view.steps[0], ax=ax, buckets=7)
    values = np.concatenate([patch.get_data().values for patch in ax.patches])
    assert len(values) % 7 == 0 and values.min() >= 0 and values.max() <= 100


def test_every_counter_can_be_drawn(view: View, ax: Axes) -> None:
    for counter in counters(view.steps[0]):
        plots.draw_counter(view.steps[0], counter.name, ax=ax)
        drawn = ax.get_lines()[-1].get_ydata()
        assert max(drawn) == max(counter.values, default=0) and drawn[0] == 0


def test_demand(view: View, ax: Axes) -> None:
    plots.draw_demand(view.steps[0], ax=ax)
    needed, expected = (line.get_ydata() for line in ax.get_lines())
    rows = demand_rows(view.steps[0])
    assert list(needed) == [row.activated for row in rows]
    assert np.allclose(expected, [0.5 * row.activated for row in rows])


def test_residency_is_the_share_of_steps(view: View, ax: Axes) -> None:
    plots.draw_residency(view, ax=ax)
    drawn = np.asarray(ax.get_images()[0].get_array())
    count = sum(len(row) for step in view.steps for row in step.residents or ())
    assert np.isclose(drawn.sum() / 100 * len(view.steps), count)


def test_what_is_not_there_is_refused(view: View, ax: Axes) -> None:
    empty = View(kind=ViewKind.ROUTING, path="a.npz", title="a", facts={})
    bare = StepView(index=0, name="step 0", schedules=view.steps[0].schedules)
    with pytest.raises(ValueError, match="expected a file with steps, got routing in a.npz"):
        plots.draw_step_times(empty, ax=ax)
    with pytest.raises(ValueError, match="expected a step with an instance"):
        plots.draw_waterfall(bare, ax=ax)
    with pytest.raises(ValueError, match="expected a counter among slots used"):
        plots.draw_counter(bare, "speed", ax=ax)
    with pytest.raises(ValueError, match="expected a step with forecasts"):
        plots.draw_demand(bare, ax=ax)
    nobody = View(kind=ViewKind.TRACE, path="t.json", title="t", facts={}, steps=(bare,))
    with pytest.raises(ValueError, match="expected steps with residents"):
        plots.draw_residency(nobody, ax=ax)


def test_all_functions_take_axes() -> None:
    import inspect

    for name in plots.__all__:
        if name.startswith("draw_"):
            parameter = inspect.signature(getattr(plots, name)).parameters["ax"]
            assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
