"""What a sweep runs: methods, seeds, limits, hints."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from prescope.bench.planning import Replan, check_method
from prescope.formulation.checks import require_int
from prescope.solver import Limits

DEFAULT_LIMIT = "default"
_WALL = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>us|ms|s)")
_UNIT_NS = {"us": 10**3, "ms": 10**6, "s": 10**9}
_WORK = re.compile(r"det:(?P<number>\d+(?:\.\d+)?)")


class Hints(StrEnum):
    """Which plan methods are given as a hint."""

    NONE = "none"
    BEST = "best"


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchSettings:
    """What a sweep runs on every instance.

    Parameters
    ----------
    methods
        Names that `prescope.solver.get_method` knows, or ``gate:`` with a policy that decides gate by gate
        (`prescope.solver.online.gate_policies`; for instances with predicted demand).
    seeds
        Seeds every method is run with.
    limits
        ``"default"`` (the method's own), a wall time such as ``"500ms"`` or ``"2s"``, or ``"det:5"``, which
        is CP-SAT's deterministic measure and the same on every machine.
    hints
        ``BEST`` hints the best known plan of the library, where demand is known.
    replan
        Instances with predicted demand: whether methods of known demand plan at every gate what is predicted
        there, or once beforehand.
    """

    methods: tuple[str, ...]
    seeds: tuple[int, ...] = (0,)
    limits: tuple[str, ...] = (DEFAULT_LIMIT,)
    hints: Hints = Hints.NONE
    replan: Replan = Replan.GATES

    def __post_init__(self) -> None:
        for name in ("methods", "seeds", "limits"):
            values = tuple(getattr(self, name))
            object.__setattr__(self, name, values)
            if not values:
                raise ValueError(f"expected at least one of {name}, got none")
            twice = sorted({str(value) for value in values if values.count(value) > 1})
            if twice:
                raise ValueError(f"expected distinct {name}, got {twice[0]!r} twice")
        for method in self.methods:
            check_method(method)
        for seed in self.seeds:
            require_int("seed", seed, 0)
        for limit in self.limits:
            parse_limit(limit)


def parse_limit(text: str) -> Limits:
    """The limits that a text of `BenchSettings.limits` stands for.

    Raises
    ------
    ValueError
        When it is none of the forms.
    """
    if text == DEFAULT_LIMIT:
        return Limits()
    if found := _WALL.fullmatch(text):
        return Limits(wall_ns=round(float(found["number"]) * _UNIT_NS[found["unit"]]))
    if found := _WORK.fullmatch(text):
        return Limits(deterministic_time=float(found["number"]))
    raise ValueError(f"expected a limit such as default, 500ms, 2s or det:5, got {text!r}")
