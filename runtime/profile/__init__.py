"""Measures what a model costs on this machine, and notices when it no longer does."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from prescope.runtime.profile.costs import costs_of, dense_series, find_series, link_of, reading_slowdown
from prescope.runtime.profile.drift import DriftEvent, DriftMonitor
from prescope.runtime.profile.fingerprint import fingerprint_of
from prescope.runtime.profile.fit import FitError, curve_of, fit_line, line_error, table_error
from prescope.runtime.profile.machine import engine_threads, this_machine, usable_cores
from prescope.runtime.profile.settings import ProfileSettings, quick_settings

if TYPE_CHECKING:
    from prescope.runtime.profile.checkpoint import profile_checkpoint
    from prescope.runtime.profile.whole_model import profile_model

__all__ = [
    "DriftEvent",
    "DriftMonitor",
    "FitError",
    "ProfileSettings",
    "costs_of",
    "curve_of",
    "dense_series",
    "engine_threads",
    "find_series",
    "fingerprint_of",
    "fit_line",
    "line_error",
    "link_of",
    "profile_checkpoint",
    "profile_model",
    "quick_settings",
    "reading_slowdown",
    "table_error",
    "this_machine",
    "usable_cores",
]

# These use the plug-in, which itself uses this package.
_LATER = {"profile_checkpoint": "checkpoint", "profile_model": "whole_model"}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    globals()[name] = value
    return value
