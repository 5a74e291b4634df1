"""When reading ahead into a pool of rows is worth it, by policy."""

from __future__ import annotations

from dataclasses import dataclass

from prescope.solver.online import ExpectedPolicy, GatePolicy

FADE = 0.98
"""What is left of a gate's promises at the next one: the guard looks back over some fifty gates."""

SLACK = 8.0
"""Reads' time that reading ahead may have lost since it last broke even. Where little is read ahead, the last
fifty gates have some ten reads, and a share of those says nothing of the predictor. Chosen with
`benchmarks.disk_expected --split choice`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRules:
    """How a policy reads ahead.

    Parameters
    ----------
    least
        Least probability of use at which an expert is read ahead.
    planned
        Whether `prescope.solver.online.reads` chooses what is read ahead, else the policy does.
    spread
        As of `prescope.solver.online.reads.plan_reads`.
    guard
        Reading ahead that has lost the time of `SLACK` reads rests until it would have saved this share of
        what it promises; 0 trusts it always.
    """

    least: float
    planned: bool = False
    spread: float = 0.0
    guard: float = 0.0

    def __post_init__(self) -> None:
        for name in ("least", "spread", "guard"):
            value = getattr(self, name)
            if not 0.0 <= value <= 1.0:
                raise ValueError(f"expected {name} in [0, 1], got {value}")


# Below it a copy hides hardly anything and mostly costs: on routing of 12 layers, 32 experts and top 4,
# planned steps take the same time with 10 to 40 % fewer copies.
PLAIN = ReadRules(least=0.3)

# Chosen on validation sequences (benchmarks/disk_expected.py).
EXPECTED = ReadRules(least=0.2, planned=True, spread=0.5, guard=0.1)


def read_rules(policy: GatePolicy) -> ReadRules:
    """How a policy reads ahead; ``expected`` without a guard is not watched here either."""
    if not isinstance(policy, ExpectedPolicy):
        return PLAIN
    if policy.code.guard > 0.0:
        return EXPECTED
    return ReadRules(least=EXPECTED.least, planned=True, spread=EXPECTED.spread)
