"""The saved problems: schema, read and write, library, builders and generators."""

from prescope.instances.residents import choose_residents
from prescope.instances.synthetic import (
    SyntheticSettings,
    synthetic_demand,
    synthetic_instance,
    synthetic_popularity,
    synthetic_settings,
)

__all__ = [
    "SyntheticSettings",
    "choose_residents",
    "synthetic_demand",
    "synthetic_instance",
    "synthetic_popularity",
    "synthetic_settings",
]
