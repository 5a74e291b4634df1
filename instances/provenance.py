"""Where an instance comes from and what is proved about it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from prescope.formulation.checks import require_int


@cache
def this_version() -> str:
    """Name and version of this package, for `Provenance.created_by`."""
    from importlib.metadata import version

    return f"prescope {version('prescope')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where an instance comes from.

    Parameters
    ----------
    source
        What the routing and the costs were taken from.
    generator
        The program or recipe that made the instance.
    seed
        Its seed; ``None`` where nothing was random.
    created_by
        The package and version that wrote it.
    notes
        Anything else worth knowing.
    """

    source: str
    generator: str = ""
    seed: int | None = None
    created_by: str = ""
    notes: str = ""

    def __post_init__(self) -> None:
        if self.seed is not None:
            require_int("seed", self.seed, 0)
        if not self.created_by:
            object.__setattr__(self, "created_by", this_version())


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What is proved about an instance's smallest makespan; ``None`` where nothing is.

    Parameters
    ----------
    optimum_ns, optimum_by
        The proven optimum and who proved it.
    lower_bound_ns, lower_bound_by
        The best proven lower bound and who proved it.
    """

    optimum_ns: int | None = None
    optimum_by: str | None = None
    lower_bound_ns: int | None = None
    lower_bound_by: str | None = None

    def __post_init__(self) -> None:
        for name in ("optimum", "lower_bound"):
            value, by = getattr(self, f"{name}_ns"), getattr(self, f"{name}_by")
            if (value is None) != (by is None):
                raise ValueError(
                    f"expected both or none of {name}_ns and {name}_by, got {value!r} and {by!r}"
                )
            if value is not None:
                require_int(f"{name}_ns", value, 0)
        if self.optimum_ns is not None and self.lower_bound_ns is not None:
            require_int("lower_bound_ns", self.lower_bound_ns, 0, self.optimum_ns)
