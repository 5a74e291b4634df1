"""One cell of the disk tier's table: one system under one budget on one stream."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.disk_routing import Array
from benchmarks.disk_steps import run_steps


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A way of serving experts from the disk; ``profiled`` ones are told each expert's popularity."""

    name: str
    policy: str
    residency: str
    profiled: bool = False
    options: dict[str, Any] = field(default_factory=dict)


OURS = "ours"
MAPPED = "mmap"
SYSTEMS = (
    System(name=OURS, policy="dp", residency="moving-average"),
    System(name="lru", policy="on-demand", residency="lru"),
    System(name="layer-lru", policy="on-demand", residency="layer-lru"),
    System(name="static", policy="on-demand", residency="static", profiled=True),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CellResult:
    """What was measured in the timed steps.

    Parameters
    ----------
    times_ns
        Wall time of each.
    digest
        Checksum of their logits.
    read_bytes
        Taken from the disk.
    hit_rate
        Share of needed experts that were in memory at their gate; ``None`` where nobody can say.
    planned_ns, executed_ns
        Of each step by the engine's plan and clock.
    plan_ns
        Wall time of all decisions of a step, median.
    counts
        Tokens of each expert of every step, warming up included.
    prefetch
        Useful, wasted and late prefetches.
    warnings
        What was not as wanted.
    """

    times_ns: list[int]
    digest: int
    read_bytes: int
    hit_rate: float | None = None
    planned_ns: list[int] = field(default_factory=list)
    executed_ns: list[int] = field(default_factory=list)
    plan_ns: int = 0
    counts: list[Array] = field(default_factory=list)
    prefetch: tuple[int, int, int] = (0, 0, 0)
    warnings: tuple[str, ...] = ()


def engine_cell(
    model: Any,
    system: System,
    groups: list[Array],
    *,
    warm: int,
    budget_bytes: int,
    costs: Any,
    popularity: Array,
) -> CellResult:
    """Attach, run, detach.

    Parameters
    ----------
    model
        Of `prescope.load`, detached.
    groups, warm
        As for `benchmarks.disk_steps.run_steps`.
    costs
        A measured cost model.
    popularity
        Share of each expert on other streams, ``[layers, experts]``.
    """
    from prescope.runtime.plugin import attach
    from prescope.runtime.plugin.load.link import store_of

    store: Any = store_of(model)
    engine = attach(
        model,
        budget_bytes,
        policy=system.policy,
        residency=system.residency,
        costs=costs,
        popularity=popularity if system.profiled else None,
        record=True,
        **system.options,
    )
    began = [0]

    def on_warm() -> None:
        began[0] = store.bytes_read

    with engine:
        times, digest = run_steps(model, groups, warm=warm, on_warm=on_warm)
        moved = store.bytes_read - began[0]
        report, counts = engine.report(), engine.step_counts()
    steps = report.steps[warm:]
    activated = sum(step.activated for step in steps)
    layers = counts[0].shape[0]
    return CellResult(
        times_ns=times,
        digest=digest,
        read_bytes=moved,
        hit_rate=sum(step.hits for step in steps) / activated,
        planned_ns=[step.planned_ns for step in steps],
        executed_ns=[step.executed_ns or 0 for step in steps],
        plan_ns=round(float(np.median([step.plan_ns for step in steps]))) * layers,
        counts=counts,
        prefetch=(
            sum(step.prefetch_useful for step in steps),
            sum(step.prefetch_wasted for step in steps),
            sum(step.prefetch_late for step in steps),
        ),
        warnings=report.degraded,
    )
