"""Ways to carry out a program. Heavy imports happen when a backend is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prescope.runtime.backends.base import Backend, Ticket, Work

if TYPE_CHECKING:
    from prescope.runtime.arena import DeviceArena
    from prescope.runtime.store import ExpertStore

__all__ = ["Backend", "Ticket", "Work", "backends", "open_backend"]

_NAMES = ("sim", "cpu", "disk")


def backends() -> tuple[str, ...]:
    """Names of the backends."""
    return _NAMES


def open_backend(name: str, store: ExpertStore, arena: DeviceArena, options: Any = None) -> Backend:
    """Open a backend; close it in the end.

    Parameters
    ----------
    name
        One of `backends`.
    store, arena
        Host rows to copy from and device rows to copy to; only ``"disk"`` takes rows that are not in host
        memory.
    options
        `SimOptions`, where ``None`` is the modelled machine itself, `CpuOptions`, which must say the
        dilation, or `DiskOptions`, where ``None`` is the default.

    Raises
    ------
    ValueError
        When the name is unknown, or the options or the store belong to another backend.
    """
    if name == "disk":
        from prescope.runtime.backends.disk import DiskBackend, DiskOptions

        return DiskBackend(store, arena, None if options is None else _checked(name, options, DiskOptions))
    if name not in _NAMES:
        raise ValueError(f"expected a backend among {', '.join(_NAMES)}, got {name!r}")
    from prescope.runtime.store import HostStore

    if not isinstance(store, HostStore):
        raise ValueError(
            f"expected experts in host memory for backend {name!r}, got {type(store).__name__}: use 'disk'"
        )
    if name == "sim":
        from prescope.runtime.backends.sim import SimBackend, SimOptions

        return SimBackend(store, arena, None if options is None else _checked(name, options, SimOptions))
    from prescope.runtime.backends.cpu import CpuBackend, CpuOptions

    return CpuBackend(store, arena, _checked(name, options, CpuOptions))


def _checked(name: str, options: Any, kind: type[Any]) -> Any:
    if not isinstance(options, kind):
        raise ValueError(f"expected {kind.__name__} for backend {name!r}, got {type(options).__name__}")
    return options
