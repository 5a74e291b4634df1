"""Scheduling rules of other systems, reconstructed from papers and public code and labelled so.

Each rule is a gate policy; `RuleMethod` makes it a planning method. docs/rules.md says what was decided.
"""

from collections.abc import Callable

from prescope.solver.online.policies import GatePolicy
from prescope.solver.rules.fate import Fate
from prescope.solver.rules.fiddler import Fiddler
from prescope.solver.rules.freetoken import FreeToken
from prescope.solver.rules.hybrimoe import HybriMoE
from prescope.solver.rules.klotski import Klotski
from prescope.solver.rules.ktransformers import KTransformers
from prescope.solver.rules.method import RuleMethod
from prescope.solver.rules.play import play

RULES: dict[str, Callable[[], GatePolicy]] = {
    "ktransformers": KTransformers,
    "fiddler": Fiddler,
    "freetoken": FreeToken,
    "klotski": Klotski,
    "fate": Fate,
    "hybrimoe": HybriMoE,
}
"""Every rule by name, with its tuned parameters."""

__all__ = [
    "Fate",
    "Fiddler",
    "FreeToken",
    "HybriMoE",
    "KTransformers",
    "RULES",
    "Klotski",
    "RuleMethod",
    "play",
]
