"""What really happened in a step, in the shape of a schedule."""

from __future__ import annotations

from dataclasses import dataclass, field

from prescope.formulation import Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Violations:
    """How often operations of one kind took longer than modelled.

    Parameters
    ----------
    kind
        ``"dense"``, ``"copy"``, ``"gpu"`` or ``"cpu"``.
    count, total
        Operations that overran, of how many.
    """

    kind: str
    count: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTrace:
    """One executed step.

    Parameters
    ----------
    backend
        What executed it.
    schedule
        Every task with the start and end it really had, in modelled nanoseconds since the step began: virtual
        time, or real time divided by the dilation. Same order and shape as the exact evaluator's.
    carried
        ``(layer, expert)`` of copies that were still under way at the end; their end is a forecast.
    link_busy_ns
        How long after the step's end the link stays busy with them, or with those of earlier steps.
    bytes_moved
        Modelled bytes of all copies.
    row_bytes_moved
        Bytes that were really copied between host rows and the arena.
    violations
        Overruns by kind; empty on a backend in virtual time.
    degraded
        What did not run as planned, in words; empty in a normal step.
    dilation
        Real time per modelled time; 1 in virtual time.
    began_unix_ns
        When it began, in nanoseconds of Unix time, which other profilers use, too; ``None`` in
        virtual time.
    digest
        Hash of all operations and times; equal for equal seed and program in virtual time.
    """

    backend: str
    schedule: Schedule
    carried: tuple[tuple[int, int], ...] = ()
    link_busy_ns: int = 0
    bytes_moved: int = 0
    row_bytes_moved: int = 0
    violations: tuple[Violations, ...] = ()
    degraded: tuple[str, ...] = ()
    dilation: float = 1.0
    began_unix_ns: int | None = None
    digest: str = field(default="")

    @property
    def makespan_ns(self) -> int:
        """When the step was done, in modelled nanoseconds since it began."""
        return self.schedule.makespan_ns

    @property
    def violation_share(self) -> float:
        """Share of timed operations that overran, 0 to 1."""
        total = sum(entry.total for entry in self.violations)
        return sum(entry.count for entry in self.violations) / total if total else 0.0

    @property
    def refused(self) -> bool:
        """Whether more than 1 % overran, so that the times must not be quoted."""
        return self.violation_share > 0.01
