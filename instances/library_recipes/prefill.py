"""Set ``prefill``: prompts, with hundreds or thousands of tokens in one step."""

from __future__ import annotations

from collections.abc import Iterator

from prescope.instances.instance_file import InstanceFile
from prescope.instances.library_recipes.sources import fitted_instances, tiny_instances, zipf_instance
from prescope.instances.routing_trace import Phase

_ZIPF = (
    ("mixtral-8x7b", "a100-pcie4", 512),
    ("mixtral-8x7b", "a100-pcie4", 2048),
    ("mixtral-8x7b", "h100-pcie5", 2048),
    ("qwen3-30b-a3b", "h100-pcie5", 2048),
    ("deepseek-v2-lite", "a100-pcie4", 512),
    ("gpt-oss-20b", "rtx4090-desktop", 1024),
    ("gpt-oss-120b", "h100-pcie5", 1024),
    ("deepseek-v3", "h100-pcie5", 2048),
)
# Model, machine, prompts of 16 tokens each, slots, lookahead.
_FITTED: tuple[tuple[str, str, int, int | None, int | None], ...] = (
    ("gpt-oss-20b", "a100-pcie4", 16, None, None),
    ("gpt-oss-20b", "h100-pcie5", 64, 2, None),
    ("mixtral-8x7b", "h100-pcie5", 32, 2, 2),
    ("qwen3-30b-a3b", "rtx4090-desktop", 32, 8, 4),
    ("olmoe-1b-7b", "h100-pcie5", 64, 4, None),
    ("deepseek-v2-lite", "rtx4090-desktop", 8, 1, None),
)


def prefill_set() -> Iterator[InstanceFile]:
    """Long prompts with Zipf routing, short ones with fitted routing, and the tiny model's."""
    for model, machine, tokens in _ZIPF:
        yield zipf_instance(model, machine, tokens)
    for model, machine, prompts, slots, ahead in _FITTED:
        yield from fitted_instances(
            model, machine, prompts, slots=slots, lookahead=ahead, phase=Phase.PREFILL
        )
    for machine in ("a100-pcie4", "v100-pcie3"):
        yield from tiny_instances(machine, 4, phase=Phase.PREFILL, steps=1)
