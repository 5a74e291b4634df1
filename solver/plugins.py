"""What other packages bring along through entry points: methods, residency rules."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points

from prescope.solver.base import Method

GROUP = "prescope.solvers"
_log = logging.getLogger(__name__)


class PluginError(ValueError):
    """A method of another package cannot be used; the message names the package."""


def plugin_names(built_in: Collection[str], *, group: str = GROUP, what: str = "method") -> tuple[str, ...]:
    """Names that other packages add, sorted.

    A name of a built-in method stays the built-in one's, with a warning that names the package. A name that
    two packages claim is listed; asking for it is what fails.
    """
    names = set()
    for entry in _entries(group):
        if entry.name in built_in:
            _log.warning(
                "the %s %r of %s is left out: that name is a built-in %s's; it needs another",
                what,
                entry.name,
                _maker(entry),
                what,
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
    entry = _entry(name, GROUP, "method")
    where = _where(entry, "method")
    with _loading(where):
        made = entry.load()
        method = made if not isinstance(made, type) and hasattr(made, "plan") else made()
    return _checked(method, entry.name, where)


def load_entry(name: str, *, group: str, what: str) -> tuple[object, str]:
    """What another package registered under a name in a group, and how to call it in a message.

    Raises
    ------
    PluginError
        When several packages claim the name, or the one that does cannot be imported; the message names the
        package.
    KeyError
        When no package registers the name.
    """
    entry = _entry(name, group, what)
    where = _where(entry, what)
    with _loading(where):
        return entry.load(), where


def _entry(name: str, group: str, what: str) -> EntryPoint:
    found = [entry for entry in _entries(group) if entry.name == name]
    if not found:
        raise KeyError(name)
    if len({entry.value for entry in found}) > 1:
        makers = " and ".join(sorted(_maker(entry) for entry in found))
        raise PluginError(f"expected one package to provide the {what} {name!r}, got {makers}; uninstall one")
    return found[0]


@contextmanager
def _loading(where: str) -> Iterator[None]:
    try:
        yield
    except (Exception, SystemExit) as error:
        raise PluginError(f"expected {where} to load, got {type(error).__name__}: {error}") from error


def _where(entry: EntryPoint, what: str) -> str:
    return f"the {what} {entry.name!r} of {_maker(entry)} ({entry.value})"


def _checked(method: object, name: str, where: str) -> Method:
    if not callable(getattr(method, "plan", None)):
        raise PluginError(
            f"expected {where} to have plan(instance, *, limits, seed, hint), got {type(method).__name__}"
        )
    called = getattr(method, "name", None)
    if called != name:
        raise PluginError(f"expected {where} to have the name {name!r}, got {called!r}")
    return method  # type: ignore[return-value]


def _entries(group: str) -> list[EntryPoint]:
    return sorted(entry_points(group=group), key=lambda entry: (entry.name, _maker(entry)))


def _maker(entry: EntryPoint) -> str:
    return "an unnamed package" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"
