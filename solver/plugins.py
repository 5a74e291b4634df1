"""Methods that other packages bring along, through the entry-point group ``prescope.solvers``."""

from __future__ import annotations

import logging
from collections.abc import Collection
from importlib.metadata import EntryPoint, entry_points

from prescope.solver.base import Method

GROUP = "prescope.solvers"
_log = logging.getLogger(__name__)


class PluginError(ValueError):
    """A method of another package cannot be used; the message names the package."""


def plugin_names(built_in: Collection[str]) -> tuple[str, ...]:
    """Names that other packages add, sorted.

    A name of a built-in method stays the built-in one's, with a warning that names the package. A name that
    two packages claim is listed; asking for it is what fails.
    """
    names = set()
    for entry in _entries():
        if entry.name in built_in:
            _log.warning(
                "the method %r of %s is left out: that name is a built-in method's; it needs another",
                entry.name,
                _maker(entry),
            )
        else:
            names.add(entry.name)
    return tuple(sorted(names))


def load_plugin(name: str) -> Method:
    """The method that another package registered under a name.

    The entry point may name a method or something that, called without arguments, makes one.

    Raises
    ------
    PluginError
        When several packages claim the name, or the one that does cannot be imported, does not make a
        method, or makes one of another name. The message names the package.
    KeyError
        When no package registers the name.
    """
    found = [entry for entry in _entries() if entry.name == name]
    if not found:
        raise KeyError(name)
    if len({entry.value for entry in found}) > 1:
        makers = " and ".join(sorted(_maker(entry) for entry in found))
        raise PluginError(f"expected one package to provide the method {name!r}, got {makers}; uninstall one")
    entry = found[0]
    try:
        made = entry.load()
        method = made if not isinstance(made, type) and hasattr(made, "plan") else made()
    except (Exception, SystemExit) as error:
        raise PluginError(
            f"expected the method {name!r} of {_maker(entry)} ({entry.value}) to load, "
            f"got {type(error).__name__}: {error}"
        ) from error
    return _checked(method, entry)


def _checked(method: object, entry: EntryPoint) -> Method:
    where = f"the method {entry.name!r} of {_maker(entry)} ({entry.value})"
    if not callable(getattr(method, "plan", None)):
        raise PluginError(
            f"expected {where} to have plan(instance, *, limits, seed, hint), got {type(method).__name__}"
        )
    called = getattr(method, "name", None)
    if called != entry.name:
        raise PluginError(f"expected {where} to have the name {entry.name!r}, got {called!r}")
    return method  # type: ignore[return-value]


def _entries() -> list[EntryPoint]:
    return sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, _maker(entry)))


def _maker(entry: EntryPoint) -> str:
    return "an unnamed package" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"
