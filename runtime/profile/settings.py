"""What is measured and how thoroughly."""

from __future__ import annotations

from dataclasses import dataclass

from prescope.formulation.checks import require_int
from prescope.runtime.profile.timing import Effort

_KIB, _MIB = 2**10, 2**20
_SECOND_NS = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileSettings:
    """What is measured and how thoroughly.

    Parameters
    ----------
    expert_tokens
        Tokens of one expert.
    decode_tokens
        Sequences that decode one token each.
    prefill_tokens
        Tokens of one prompt.
    context
        Tokens in the cache of each sequence that decodes.
    depths
        Reads in flight.
    read_bytes, copy_bytes
        Sizes of reads and of copies inside memory.
    reads
        Reads of a run per read in flight.
    effort
        Repeats and time for each series.
    seed
        Seed of inputs and of the order of reads.
    quick
        Kept with the results, as they are less exact.
    """

    expert_tokens: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
    decode_tokens: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    prefill_tokens: tuple[int, ...] = (32, 64, 128, 256, 512)
    context: int = 256
    depths: tuple[int, ...] = (1, 2, 4, 8)
    read_bytes: tuple[int, ...] = (64 * _KIB, 256 * _KIB, _MIB, 4 * _MIB, 16 * _MIB)
    copy_bytes: tuple[int, ...] = (64 * _KIB, 256 * _KIB, _MIB, 4 * _MIB, 16 * _MIB)
    reads: int = 8
    effort: Effort = Effort(repeats=15, budget_ns=20 * _SECOND_NS)
    seed: int = 0
    quick: bool = False

    def __post_init__(self) -> None:
        for name in (
            "expert_tokens",
            "decode_tokens",
            "prefill_tokens",
            "depths",
            "read_bytes",
            "copy_bytes",
        ):
            values = tuple(getattr(self, name))
            object.__setattr__(self, name, values)
            if not values:
                raise ValueError(f"expected at least one of {name}, got none")
            for low, high in zip((0, *values), values, strict=False):
                require_int(name, high, low + 1)
        require_int("context", self.context, 0)
        require_int("reads", self.reads, 1)
        require_int("seed", self.seed, 0)


def quick_settings(*, context: int = 256, seed: int = 0) -> ProfileSettings:
    """Fewer sizes and repeats: seconds instead of minutes."""
    return ProfileSettings(
        expert_tokens=(1, 4, 16, 64, 256),
        decode_tokens=(1, 4, 16),
        prefill_tokens=(16, 64, 256),
        context=context,
        depths=(1, 4),
        read_bytes=(64 * _KIB, _MIB, 4 * _MIB),
        copy_bytes=(64 * _KIB, _MIB, 4 * _MIB),
        reads=4,
        effort=Effort(repeats=5, budget_ns=2 * _SECOND_NS),
        seed=seed,
        quick=True,
    )
