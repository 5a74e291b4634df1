"""Which sequences of a trace train, choose and judge a predictor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prescope.formulation.checks import require_int
from prescope.instances import RoutingTrace


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceSplit:
    """Sequences by purpose; tokens of one sequence are never divided.

    Parameters
    ----------
    train, validation, test
        Sequence numbers, ascending, disjoint.
    """

    train: tuple[int, ...]
    validation: tuple[int, ...]
    test: tuple[int, ...]

    def __post_init__(self) -> None:
        every = [*self.train, *self.validation, *self.test]
        if len(set(every)) != len(every) or min(every, default=0) < 0:
            raise ValueError(f"expected disjoint sequence numbers >= 0, got {sorted(every)[:20]}")


def split_sequences(
    trace: RoutingTrace, *, seed: int = 0, validation: float = 0.15, test: float = 0.25
) -> SequenceSplit:
    """Divide the sequences of a trace by chance.

    Parameters
    ----------
    trace
        Recorded routing.
    seed
        Of the shuffle.
    validation, test
        Share of the sequences, in (0, 1), together below 1; each gets at least one.

    Raises
    ------
    ValueError
        With fewer than three sequences, or shares that leave none to train on.
    """
    require_int("seed", seed, 0)
    if not (0 < validation < 1 and 0 < test < 1 and validation + test < 1):
        raise ValueError(f"expected shares > 0 that add up to less than 1, got {validation} and {test}")
    count = trace.sequences
    if count < 3:
        raise ValueError(
            f"expected at least 3 sequences to train, choose and judge on different ones, got {count}"
        )
    held, tuned = max(1, round(count * test)), max(1, round(count * validation))
    if held + tuned >= count:
        raise ValueError(f"expected sequences left to train on, got {tuned} + {held} of {count} held back")
    order = np.random.default_rng(seed).permutation(count).tolist()
    return SequenceSplit(
        train=tuple(sorted(order[held + tuned :])),
        validation=tuple(sorted(order[held : held + tuned])),
        test=tuple(sorted(order[:held])),
    )
