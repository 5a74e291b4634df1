"""What an engine's steps cost: planned, simulated and executed, and what the copies were worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """One forward pass. All times are in modelled nanoseconds.

    Parameters
    ----------
    step
        Its number since attach.
    phase
        ``"prefill"`` when a row had more than one token, else ``"decode"``.
    tokens
        Real tokens.
    planned_ns
        The exact evaluator on what was decided.
    simulated_ns
        The event simulator on the program that was run; ``None`` where the run is measured instead.
    executed_ns
        On an emulated machine the slow-motion run divided by its dilation, on the disk tier measured real
        time; ``None`` where nothing ran in real time.
    bytes_moved
        Modelled bytes of all copies.
    activated, hits
        Activated experts, and those whose weights were on the device when their gate spoke.
    prefetch_useful, prefetch_wasted, prefetch_late
        Copies issued before their layer's gate that were there in time and used on the device; that nobody
        used; and that were needed but still under way at the gate.
    gpu_experts, cpu_experts
        Experts computed on the device and on the host.
    gpu_tokens, cpu_tokens
        Their tokens.
    exchanges
        Experts that became resident for the next step.
    plan_ns
        Measured: wall time of the decisions, median over the gates.
    violations
        Operations that overran their modelled time, by kind, and how many were timed in all.
    timed_ops
        Operations that were timed.
    degraded
        What did not run as planned, in words.
    """

    step: int
    phase: str
    tokens: int
    planned_ns: int
    simulated_ns: int | None
    executed_ns: int | None
    bytes_moved: int
    activated: int
    hits: int
    prefetch_useful: int
    prefetch_wasted: int
    prefetch_late: int
    gpu_experts: int
    cpu_experts: int
    gpu_tokens: int
    cpu_tokens: int
    plan_ns: int
    exchanges: int = 0
    violations: dict[str, int] = field(default_factory=dict)
    timed_ops: int = 0
    degraded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Sums over steps; fields as in `StepReport`."""

    steps: int
    tokens: int
    planned_ns: int
    simulated_ns: int | None
    executed_ns: int | None
    bytes_moved: int
    activated: int
    hits: int
    hit_rate: float | None
    prefetch_useful: int
    prefetch_wasted: int
    prefetch_late: int
    gpu_tokens: int
    cpu_tokens: int
    gpu_share: float | None
    plan_ns: int
    exchanges: int
    violations: dict[str, int]
    violation_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineReport:
    """Everything an engine did since attach, and with what settings it really ran.

    Parameters
    ----------
    steps
        The newest steps, oldest first.
    policy, predictor, backend, preset
        Names.
    dilation
        Real time per modelled time; 1 where nothing is emulated in real time.
    expert_memory_bytes, arena_bytes
        Memory granted for experts, and taken.
    residents, slots, lookahead
        Resident experts in all layers, copy buffers, and how many layers ahead copies may be issued.
    residency
        ``"pinned"``, or the rule by which residents change or a pool of rows keeps its contents.
    warnings
        What is not as wanted and who noticed: a fallback of the disk reads, costs that no longer fit.
    """

    steps: tuple[StepReport, ...]
    policy: str
    predictor: str
    backend: str
    preset: str
    dilation: float
    expert_memory_bytes: int
    arena_bytes: int
    residents: int
    slots: int
    lookahead: int
    residency: str
    warnings: tuple[str, ...] = ()

    @property
    def degraded(self) -> tuple[str, ...]:
        """What did not run as planned or wanted, in words."""
        steps = (text for step in self.steps for text in step.degraded)
        return tuple(dict.fromkeys((*self.warnings, *steps)))

    def totals(self, phase: str | None = None) -> Totals:
        """Sums over all steps, or over those of one phase (``"prefill"`` or ``"decode"``)."""
        return total(self.steps if phase is None else [step for step in self.steps if step.phase == phase])


def total(steps: Sequence[StepReport]) -> Totals:
    """Sum step reports; a time is ``None`` unless every step has it."""
    activated, hits = sum(step.activated for step in steps), sum(step.hits for step in steps)
    gpu_tokens, cpu_tokens = sum(step.gpu_tokens for step in steps), sum(step.cpu_tokens for step in steps)
    kinds = dict.fromkeys(kind for step in steps for kind in step.violations)
    violations = {kind: sum(step.violations.get(kind, 0) for step in steps) for kind in kinds}
    timed = sum(step.timed_ops for step in steps)
    return Totals(
        steps=len(steps),
        tokens=sum(step.tokens for step in steps),
        planned_ns=sum(step.planned_ns for step in steps),
        simulated_ns=_sum_or_none([step.simulated_ns for step in steps]),
        executed_ns=_sum_or_none([step.executed_ns for step in steps]),
        bytes_moved=sum(step.bytes_moved for step in steps),
        activated=activated,
        hits=hits,
        hit_rate=hits / activated if activated else None,
        prefetch_useful=sum(step.prefetch_useful for step in steps),
        prefetch_wasted=sum(step.prefetch_wasted for step in steps),
        prefetch_late=sum(step.prefetch_late for step in steps),
        gpu_tokens=gpu_tokens,
        cpu_tokens=cpu_tokens,
        gpu_share=gpu_tokens / (gpu_tokens + cpu_tokens) if gpu_tokens + cpu_tokens else None,
        plan_ns=round(median([step.plan_ns for step in steps])) if steps else 0,
        exchanges=sum(step.exchanges for step in steps),
        violations=violations,
        violation_share=sum(violations.values()) / timed if timed else 0.0,
    )


def _sum_or_none(times: Sequence[int | None]) -> int | None:
    known = [time_ns for time_ns in times if time_ns is not None]
    return sum(known) if times and len(known) == len(times) else None
