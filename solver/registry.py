"""Methods by name. Each lives in its own module, imported when it is first used."""

from __future__ import annotations

from importlib import import_module

from prescope.solver.base import Method

# Imported before this package binds the function `methods` to its name, which the import would replace.
_PACKAGE = import_module("prescope.solver.methods").__name__
_MODULES = {
    "on-demand": "on_demand",
    "cpu-only": "cpu_only",
    "intra-layer": "intra_layer",
    "presched": "presched",
    "dp": "dp",
    "cp-sat": "cp_sat",
}


def methods() -> tuple[str, ...]:
    """Names that `prescope.solver.solve` takes."""
    return tuple(_MODULES)


def get_method(name: str) -> Method:
    """The method of that name with its default settings.

    Raises
    ------
    ValueError
        When the name is unknown; the message lists the known ones.
    """
    if name not in _MODULES:
        raise ValueError(f"expected a method among {', '.join(_MODULES)}, got {name!r}")
    method: Method = import_module(f"{_PACKAGE}.{_MODULES[name]}").METHOD
    return method
