"""How, when and on what kind of machine costs were measured."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from prescope.formulation.checks import require_int
from prescope.instances.provenance import this_version


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineDescription:
    """A machine in general words: no names of hosts, users or folders.

    Parameters
    ----------
    system, architecture
        For example ``"Linux"`` and ``"x86_64"``.
    cores
        Cores this process may use.
    memory_bytes
        Memory of the machine.
    python, torch, transformers
        Versions; ``transformers`` may be ``None``.
    """

    system: str
    architecture: str
    cores: int
    memory_bytes: int
    python: str
    torch: str
    transformers: str | None = None

    def __post_init__(self) -> None:
        require_int("cores", self.cores, 1)
        require_int("memory_bytes", self.memory_bytes, 1)

    def describe(self) -> str:
        """One line for people."""
        return (
            f"{self.system} {self.architecture}, {self.cores} cores, {self.memory_bytes / 2**30:.0f} GiB, "
            f"Python {self.python}, torch {self.torch}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CostProvenance:
    """How costs were measured.

    Parameters
    ----------
    measured_on
        Date, ``YYYY-MM-DD``.
    machine
        Where.
    threads
        Threads of the computations that the cost model describes.
    depth
        Reads in flight that the cost model's link describes; ``None`` without a disk.
    context
        Tokens in the cache of each sequence while decoding was measured.
    direct
        Whether reads went past the page cache; ``None`` without a disk.
    quick
        Whether the short, less exact programme was run.
    seed
        Seed of inputs and of the order of reads.
    notes
        What was not as it should be, or anything else worth knowing.
    created_by
        The package and version that measured.
    """

    measured_on: str
    machine: MachineDescription
    threads: int
    depth: int | None = None
    context: int = 0
    direct: bool | None = None
    quick: bool = False
    seed: int = 0
    notes: str = ""
    created_by: str = ""

    def __post_init__(self) -> None:
        try:
            day = date.fromisoformat(self.measured_on)
        except (TypeError, ValueError) as error:
            raise ValueError(f"expected measured_on as YYYY-MM-DD, got {self.measured_on!r}") from error
        if day.isoformat() != self.measured_on:
            raise ValueError(f"expected measured_on as YYYY-MM-DD, got {self.measured_on!r}")
        require_int("threads", self.threads, 1)
        require_int("context", self.context, 0)
        require_int("seed", self.seed, 0)
        if self.depth is not None:
            require_int("depth", self.depth, 1)
        if (self.depth is None) != (self.direct is None):
            raise ValueError(
                f"expected both or none of depth and direct, got {self.depth!r} and {self.direct!r}"
            )
        if not self.created_by:
            object.__setattr__(self, "created_by", this_version())
