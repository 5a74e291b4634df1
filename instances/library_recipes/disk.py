"""Set ``disk``: weights rest on a disk, the host computes nothing, every missing expert is copied."""

from __future__ import annotations

from collections.abc import Iterator

from prescope.formulation import model_names
from prescope.instances.instance_file import InstanceFile
from prescope.instances.library_recipes.sources import fitted_instances, tiny_instances, zipf_instance
from prescope.instances.routing_trace import Phase

_MACHINE = "nvme-ram"
_ZIPF_B8 = ("mixtral-8x7b", "qwen3-30b-a3b", "gpt-oss-20b")
# Model, batch, slots, lookahead, share of residents.
_FITTED: tuple[tuple[str, int, int | None, int | None, float], ...] = (
    ("gpt-oss-20b", 1, 4, None, 0.5),
    ("gpt-oss-20b", 1, 2, 1, 0.75),
    ("gpt-oss-20b", 8, 4, 2, 0.75),
    ("qwen3-30b-a3b", 1, 8, 2, 0.5),
    ("olmoe-1b-7b", 8, 2, None, 0.75),
    ("mixtral-8x7b", 1, 1, None, 0.5),
    ("mixtral-8x7b", 8, 2, 1, 0.5),
    ("deepseek-v2-lite", 1, 2, 4, 0.75),
)


def disk_set() -> Iterator[InstanceFile]:
    """Nine models at batch 1, three at batch 8, fitted routing with more residents, and the tiny model's."""
    for model in model_names():
        yield zipf_instance(model, _MACHINE, 1)
    for model in _ZIPF_B8:
        yield zipf_instance(model, _MACHINE, 8)
    for model, batch, slots, ahead, resident in _FITTED:
        yield from fitted_instances(
            model, _MACHINE, batch, slots=slots, lookahead=ahead, resident_fraction=resident
        )
    for batch in (1, 8):
        yield from tiny_instances(_MACHINE, batch, steps=2)
    yield from tiny_instances(_MACHINE, 4, phase=Phase.PREFILL, steps=1)
