"""What the library's sets are made of: problems without bounds and plans, which the solver adds."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prescope.instances.horizon_file import HorizonFile
from prescope.instances.instance_file import InstanceFile
from prescope.instances.library_recipes.adversarial import adversarial_set
from prescope.instances.library_recipes.decode import decode_set
from prescope.instances.library_recipes.disk import disk_set
from prescope.instances.library_recipes.horizons import horizons_set
from prescope.instances.library_recipes.mixed_size import mixed_size_set
from prescope.instances.library_recipes.predicted import predicted_set
from prescope.instances.library_recipes.prefill import prefill_set
from prescope.instances.library_recipes.tiny_proved import tiny_proved_set

SETS: dict[str, Callable[[], Iterator[InstanceFile] | Iterator[HorizonFile]]] = {
    "tiny-proved": tiny_proved_set,
    "decode-b1": lambda: decode_set(1),
    "decode-b8": lambda: decode_set(8),
    "decode-b32": lambda: decode_set(32),
    "decode-b64": lambda: decode_set(64),
    "prefill": prefill_set,
    "disk": disk_set,
    "mixed-size": mixed_size_set,
    "predicted-vs-true": predicted_set,
    "adversarial": adversarial_set,
    "horizons": horizons_set,
}
"""Recipes by the name of the set, in the order in which they are listed."""

__all__ = ["SETS"]
