"""General solvers by name."""

from __future__ import annotations

from importlib.util import find_spec

from prescope.solver.exact.cp_sat_linear import CpSatLinearEngine
from prescope.solver.exact.engine import Engine
from prescope.solver.exact.highs import HighsEngine
from prescope.solver.exact.math_opt import MathOptEngine

_ENGINES: dict[str, Engine] = {
    engine.name: engine
    for engine in (
        HighsEngine(),
        MathOptEngine("math-opt-highs", "HIGHS"),
        MathOptEngine("scip", "GSCIP"),
        CpSatLinearEngine(),
    )
}


def engines() -> tuple[str, ...]:
    """Names that `get_engine` takes."""
    return tuple(_ENGINES)


def default_engine() -> str:
    """``highs`` where highspy is installed (it keeps models and takes starts), else OR-Tools' own HiGHS."""
    return "highs" if find_spec("highspy") else "math-opt-highs"


def get_engine(name: str) -> Engine:
    """The engine of that name.

    Raises
    ------
    ValueError
        When the name is unknown.
    """
    if name not in _ENGINES:
        raise ValueError(f"expected an engine among {', '.join(_ENGINES)}, got {name!r}")
    return _ENGINES[name]
