"""The base of all documented JSON shapes."""

from msgspec import Struct


class Strict(Struct, forbid_unknown_fields=True, kw_only=True):
    """No field more, no field less."""
