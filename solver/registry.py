"""Methods by name: built-in ones, each in a module imported when it is first used, and other packages'."""

from __future__ import annotations

from importlib import import_module

from prescope.solver.base import Method
from prescope.solver.plugins import load_plugin, plugin_names

# Imported before this package binds the function `methods` to its name, which the import would replace.
_PACKAGE = import_module("prescope.solver.methods").__name__
_MODULES = {
    "on-demand": "on_demand",
    "cpu-only": "cpu_only",
    "ktransformers": "ktransformers",
    "fiddler": "fiddler",
    "freetoken": "freetoken",
    "klotski": "klotski",
    "fate": "fate",
    "intra-layer": "intra_layer",
    "hybrimoe": "hybrimoe",
    "presched": "presched",
    "dp": "dp",
    "dp-fast": "dp:FAST",
    "cp-sat": "cp_sat",
    "cp-sat-table": "milp:CP_SAT",
    "milp": "milp",
}


BUILT_IN = tuple(_MODULES)
"""Names of the methods that come with this package."""

PROVERS = ("cp-sat", "cp-sat-table", "milp")
"""Built-in methods that prove bounds of their own."""


def methods() -> tuple[str, ...]:
    """Names that `prescope.solver.solve` takes: the built-in ones, then those that other packages add."""
    return (*BUILT_IN, *plugin_names(BUILT_IN))


def get_method(name: str) -> Method:
    """The method of that name with its default settings.

    Raises
    ------
    ValueError
        When the name is unknown; the message lists the known ones.
    PluginError
        A ``ValueError``: when the method of another package does not load; the message names the package.
    """
    if name in _MODULES:
        module, _, attribute = _MODULES[name].partition(":")
        method: Method = getattr(import_module(f"{_PACKAGE}.{module}"), attribute or "METHOD")
        return method
    try:
        return load_plugin(name)
    except KeyError:
        raise ValueError(f"expected a method among {', '.join(methods())}, got {name!r}") from None
