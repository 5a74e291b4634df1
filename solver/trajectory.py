"""What an anytime method knew, and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prescope.formulation.checks import require_finite, require_int


@dataclass(frozen=True, slots=True, kw_only=True)
class Incumbent:
    """A plan shorter than all before it.

    Parameters
    ----------
    time_ns
        Wall time since the method started.
    makespan_ns
        Of the plan known then: by the method's own account while it runs, by the exact evaluator for the
        last one and for plans made before the search.
    deterministic_time
        The same moment in the method's deterministic measure, ``None`` where it has none.
    """

    time_ns: int
    makespan_ns: int
    deterministic_time: float | None = None

    def __post_init__(self) -> None:
        require_int("time_ns", self.time_ns, 0)
        require_int("makespan_ns", self.makespan_ns, 0)
        if self.deterministic_time is not None:
            require_finite("deterministic_time", self.deterministic_time, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvedBound:
    """A lower bound better than all before it.

    Parameters
    ----------
    time_ns, deterministic_time
        As in `Incumbent`.
    lower_bound_ns
        Proved by then.
    """

    time_ns: int
    lower_bound_ns: int
    deterministic_time: float | None = None

    def __post_init__(self) -> None:
        require_int("time_ns", self.time_ns, 0)
        require_int("lower_bound_ns", self.lower_bound_ns, 0)
        if self.deterministic_time is not None:
            require_finite("deterministic_time", self.deterministic_time, 0.0)


def improving_incumbents(found: Sequence[Incumbent]) -> tuple[Incumbent, ...]:
    """Those that improve on all before them, in order of time."""
    kept: list[Incumbent] = []
    for one in sorted(found, key=lambda one: one.time_ns):
        if not kept or one.makespan_ns < kept[-1].makespan_ns:
            kept.append(one)
    return tuple(kept)


def improving_bounds(found: Sequence[ProvedBound]) -> tuple[ProvedBound, ...]:
    """Those that improve on all before them, in order of time."""
    kept: list[ProvedBound] = []
    for one in sorted(found, key=lambda one: one.time_ns):
        if not kept or one.lower_bound_ns > kept[-1].lower_bound_ns:
            kept.append(one)
    return tuple(kept)
