"""Predictive cross-layer scheduling of Mixture-of-Experts inference.

Everything named in `__all__` is imported from its room when it is first used, so that ``import prescope`` and
the command line start at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prescope.formulation import Instance, Plan, Schedule, evaluate
    from prescope.instances import read_instance, read_plan, write_instance, write_plan
    from prescope.runtime.plugin import Engine, EngineReport, attach
    from prescope.runtime.plugin.load import Loaded, load
    from prescope.solver import Result, lower_bound, methods, solve

_ROOM_OF = {
    "Engine": "runtime.plugin",
    "EngineReport": "runtime.plugin",
    "Instance": "formulation",
    "Loaded": "runtime.plugin.load",
    "Plan": "formulation",
    "Result": "solver",
    "Schedule": "formulation",
    "attach": "runtime.plugin",
    "evaluate": "formulation",
    "load": "runtime.plugin.load",
    "lower_bound": "solver",
    "methods": "solver",
    "read_instance": "instances",
    "read_plan": "instances",
    "solve": "solver",
    "write_instance": "instances",
    "write_plan": "instances",
}

__all__ = [
    "Engine",
    "EngineReport",
    "Instance",
    "Loaded",
    "Plan",
    "Result",
    "Schedule",
    "attach",
    "evaluate",
    "load",
    "lower_bound",
    "methods",
    "read_instance",
    "read_plan",
    "solve",
    "write_instance",
    "write_plan",
]


def __getattr__(name: str) -> object:
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'prescope' has no attribute {name!r}")
    value = getattr(import_module(f"prescope.{_ROOM_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
