"""Views of a Qwen3-30B-A3B-sized simulated run, for the page's benchmark and pictures.

The routing is synthetic (fitted to recorded routing), the predictions are the truth mixed with noise, and the
plans are real: the residency rule and the planner of the library over 64 steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from prescope.formulation import Forecast, Lane, Schedule, Task, TaskKind, preset
from prescope.formulation.horizon import Horizon
from prescope.formulation.horizon_evaluator import horizon_schedules, link_left_ns
from prescope.inspection import StepView, View, ViewKind
from prescope.instances import choose_residents, decode_batches, fitted_recipe, popularity, synthetic_trace
from prescope.solver import Limits, get_method
from prescope.solver.residency import LeastFrequentlyUsed, run_horizon

LAYERS, EXPERTS, TOP_K, STEPS = 48, 128, 8, 64
COSTS = "qwen3-30b-a3b@a100-pcie4"


def large_view(batch: int, *, steps: int = STEPS, seed: int = 0, jitter: float = 0.0) -> View:
    """A run of 48 layers and 128 experts.

    Parameters
    ----------
    batch
        Sequences decoded together.
    steps
        Decode steps.
    seed
        Of routing, predictions and jitter.
    jitter
        Share by which every duration is changed at random in a second schedule, as real clocks do to an
        executed one; 0 for none.
    """
    rng = np.random.default_rng(seed)
    horizon = horizon_of(batch, steps, seed)
    plan = run_horizon(
        horizon,
        LeastFrequentlyUsed(layers=LAYERS, experts=EXPERTS),
        lambda instance: get_method("dp-fast").plan(instance, limits=Limits(), seed=0, hint=None).plan,
    )
    views = []
    link_ready_ns = 0
    for number, schedule in enumerate(horizon_schedules(horizon, plan)):
        instance = horizon.instance(number, plan.residents[number], link_ready_ns)
        link_ready_ns = link_left_ns(schedule)
        schedules = {"planned": schedule}
        if jitter:
            schedules["jittered"] = jittered(schedule, jitter, rng)
        views.append(
            StepView(
                index=number,
                name=f"step {number}",
                phase="decode",
                tokens=batch,
                schedules=schedules,
                instance=instance,
                plan=plan.plans[number],
                forecasts=tuple(forecasts(instance.demand.counts, batch, rng)),
            )
        )
    return View(
        kind=ViewKind.HORIZON_PLAN,
        path="(made by benchmarks/page_cases.py)",
        title=f"qwen3-30b-a3b size, batch {batch}, {steps} steps",
        facts={
            "layers": LAYERS,
            "experts": EXPERTS,
            "steps": steps,
            "batch": batch,
            "slots": horizon.slots,
            "residents": sum(map(len, horizon.residents)),
            "planned_ns": sum(view.planned.makespan_ns for view in views),
        },
        provenance={
            "costs": horizon.costs.source,
            "routing": "synthetic",
            "predictions": "the truth mixed with noise",
            "method": "lfu+dp-fast",
        },
        steps=tuple(views),
    )


def horizon_of(batch: int, steps: int, seed: int) -> Horizon:
    """Synthetic decode steps with the costs of the preset."""
    trace = synthetic_trace(
        fitted_recipe("qwen3-30b-a3b"),
        model="qwen3-30b-a3b",
        layers=LAYERS,
        experts=EXPERTS,
        top_k=TOP_K,
        sequences=batch,
        prompt_tokens=0,
        decode_tokens=steps,
        seed=seed,
    )
    return Horizon(
        name=f"qwen3-30b-a3b-b{batch}",
        costs=preset(COSTS).costs,
        demands=tuple(step.demand for step in decode_batches(trace, batch)),
        residents=choose_residents(popularity(trace), fraction=0.25),
        slots=8,
        lookahead=2,
    )


def forecasts(counts: np.ndarray, batch: int, rng: np.random.Generator) -> Iterator[Forecast | None]:
    """The truth with doubts, for every layer but the first."""
    yield None
    for row in counts[1:]:
        mixed = 0.7 * row + 0.3 * rng.permutation(row) + rng.gamma(0.3, 0.1, row.size)
        expected = mixed * row.sum() / mixed.sum()
        probability = np.minimum(1 - np.exp(-1.6 * expected), 1.0)
        yield Forecast(expected_tokens=np.minimum(expected, batch), probability=probability)


def jittered(schedule: Schedule, share: float, rng: np.random.Generator) -> Schedule:
    """The same tasks lane by lane, every duration longer by up to ``share`` of it."""
    free_ns = dict.fromkeys(Lane, 0)
    tasks: list[Task] = []
    for task in schedule.tasks:
        late_ns, longer_ns = (rng.random(2) * share * task.duration_ns).astype(int).tolist()
        start_ns = max(task.start_ns + late_ns, free_ns[task.lane])
        free_ns[task.lane] = start_ns + task.duration_ns + longer_ns
        tasks.append(replace(task, start_ns=start_ns, end_ns=free_ns[task.lane]))
    tasks.sort(key=lambda task: (task.start_ns, task.end_ns, task.lane, task.layer))
    done = [task for task in tasks if task.kind is not TaskKind.COPY]
    layers = range(len(schedule.layer_end_ns))
    ends = [max(task.end_ns for task in done if task.layer == layer) for layer in layers]
    return Schedule(tasks=tuple(tasks), layer_end_ns=tuple(ends), makespan_ns=max(ends))
