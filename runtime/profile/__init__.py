"""Measures what a model costs on this machine, and notices when it no longer does."""

from prescope.runtime.profile.costs import costs_of, link_of
from prescope.runtime.profile.drift import DriftEvent, DriftMonitor
from prescope.runtime.profile.fingerprint import fingerprint_of
from prescope.runtime.profile.fit import FitError, curve_of, fit_line, line_error, table_error
from prescope.runtime.profile.machine import engine_threads, this_machine, usable_cores
from prescope.runtime.profile.settings import ProfileSettings, quick_settings

__all__ = [
    "DriftEvent",
    "DriftMonitor",
    "FitError",
    "ProfileSettings",
    "costs_of",
    "curve_of",
    "engine_threads",
    "fingerprint_of",
    "fit_line",
    "line_error",
    "link_of",
    "quick_settings",
    "table_error",
    "this_machine",
    "usable_cores",
]
