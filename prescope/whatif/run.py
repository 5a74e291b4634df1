"""All points of a what-if, in several processes and from where an earlier run stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from prescope.formulation import format_bytes
from prescope.instances import RoutingTrace
from prescope.whatif.anchor import matching_overhead_ns
from prescope.whatif.batches import draw_counts, material
from prescope.whatif.outcome import Outcome, Sweep, outcome_of, sweep_of
from prescope.whatif.point import Lever, Machine, Point
from prescope.whatif.settings import WhatIfSettings
from prescope.whatif.simulate import simulate

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """Everything found.

    Parameters
    ----------
    machine, settings
        What was asked.
    now
        The machine as it is.
    sweeps
        One lever moved at a time.
    outcomes
        Of all points; with a grid more than those of the sweeps.
    same
        Whether the experts' popularity was taken from the very tokens replayed.
    """

    machine: Machine
    settings: WhatIfSettings
    now: Outcome
    sweeps: tuple[Sweep, ...]
    outcomes: tuple[Outcome, ...]
    same: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Task:
    """One point to simulate; sent to other processes.

    Parameters
    ----------
    machine, settings, trace
        See `run_whatif`.
    point
        Which machine to imagine.
    """

    machine: Machine
    settings: WhatIfSettings
    trace: RoutingTrace
    point: Point

    def run(self) -> Outcome:
        """Simulate it."""
        chosen, point = self.settings, self.point
        found = material(self.trace, seed=chosen.seed)
        counts = draw_counts(
            self.trace, found.rows, batch=point.batch, steps=chosen.warm + chosen.steps, seed=chosen.seed
        )
        simulated = simulate(
            self.machine,
            point,
            counts,
            found.shares,
            lookahead=min(chosen.lookahead, self.trace.layers),
            overhead_ns=chosen.overhead_ns,
            seed=chosen.seed,
            policy=chosen.policy,
            residency=chosen.residency,
        )
        return outcome_of(point, simulated, warm=chosen.warm)


def run_whatif(
    trace: RoutingTrace,
    machine: Machine,
    settings: WhatIfSettings,
    *,
    jobs: int = 1,
    known: Iterable[Outcome] = (),
    on_outcome: Callable[[Outcome], None] = lambda _: None,
    progress: Progress = lambda done, total: None,
) -> WhatIf:
    """Simulate every point of the settings over recorded routing.

    Parameters
    ----------
    trace
        Recorded routing.
    machine
        Where everything costs what it costs now; its layers must be the trace's.
    settings
        What to imagine.
    jobs
        Processes; above 1 joblib is needed.
    known
        Outcomes of an earlier run of the same settings, which are not simulated again.
    on_outcome
        Called with every new outcome.
    progress
        Called with the points done and their number.

    Raises
    ------
    ValueError
        When the machine does not fit the trace, or a point's memory is too small for one expert.
    """
    if machine.costs.layers != trace.layers:
        raise ValueError(
            f"expected costs of {trace.layers} layers as in the trace, got {machine.costs.layers} in "
            f"{machine.name}"
        )
    least = max(machine.costs.expert_bytes)
    full_bytes = trace.meta.experts * sum(machine.costs.expert_bytes)
    points = settings.points()
    for point in points:
        if point.memory_bytes < least:
            raise ValueError(
                f"expected memory of at least {format_bytes(least)}, one expert, got "
                f"{format_bytes(point.memory_bytes)}"
            )
    wanted = set(points)
    found = {one.point: one for one in known if one.point in wanted}
    progress(len(found), len(points))
    # Nothing but routing is needed elsewhere, and hidden states are large.
    bare = replace(trace, hidden=None, topk_weights=None, token_ids=None)
    tasks = (
        Task(machine=machine, settings=settings, trace=bare, point=point)
        for point in points
        if point not in found
    )
    for one in _outcomes(tasks, jobs):
        found[one.point] = one
        on_outcome(one)
        progress(len(found), len(points))
    return WhatIf(
        machine=machine,
        settings=settings,
        now=found[settings.now],
        sweeps=tuple(_sweep(lever, settings, found, full_bytes) for lever in settings.values),
        outcomes=tuple(found[point] for point in points),
        same=material(bare, seed=settings.seed).same,
    )


def matched(
    trace: RoutingTrace, machine: Machine, settings: WhatIfSettings, *, tokens_per_s: float
) -> WhatIfSettings:
    """The settings with the overhead that makes the machine as it is do what was measured.

    Parameters
    ----------
    trace, machine, settings
        As for `run_whatif`.
    tokens_per_s
        Measured at ``settings.now``, above 0.

    Raises
    ------
    ValueError
        When the simulation is slower than the measurement: the costs are not those of the machine measured.
    """

    def step_ns(overhead_ns: int) -> float:
        asked = replace(settings, overhead_ns=overhead_ns)
        return Task(machine=machine, settings=asked, trace=trace, point=settings.now).run().mean_ns

    measured_ns = settings.now.batch / tokens_per_s * 1e9
    bare_ns = step_ns(0)
    if bare_ns > measured_ns:
        raise ValueError(
            f"expected at most {settings.now.batch / bare_ns * 1e9:.4g} tokens/s, which is what the costs "
            f"allow, got {tokens_per_s:g}; measure the costs again, or take a recorded run (--as-run)"
        )
    overhead_ns = matching_overhead_ns(step_ns, measured_ns, layers=trace.layers)
    return replace(settings, overhead_ns=overhead_ns)


def _sweep(lever: Lever, settings: WhatIfSettings, found: dict[Point, Outcome], full_bytes: int) -> Sweep:
    outcomes = tuple(found[point] for point in settings.sweep_points(lever))
    return sweep_of(lever, outcomes, settings.now, full_bytes=full_bytes)


def _outcomes(tasks: Iterator[Task], jobs: int) -> Iterator[Outcome]:
    if jobs < 1:
        raise ValueError(f"expected jobs >= 1, got {jobs}")
    if jobs == 1:
        return (task.run() for task in tasks)
    try:
        from joblib import Parallel, delayed, parallel_config
    except ImportError:
        raise ValueError(
            "expected joblib for several jobs, got none; install it with: pip install 'prescope[bench]'"
        ) from None

    def parallel() -> Iterator[Outcome]:
        with parallel_config(backend="loky", n_jobs=jobs, inner_max_num_threads=1):
            running = Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch="2*n_jobs")
            yield from running(delayed(Task.run)(task) for task in tasks)

    return parallel()
