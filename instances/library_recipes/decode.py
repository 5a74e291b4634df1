"""Sets ``decode-b1`` to ``decode-b64``: one decode step of a batch, at one batch size each."""

from __future__ import annotations

from collections.abc import Iterator

from prescope.formulation import model_names
from prescope.instances.instance_file import InstanceFile
from prescope.instances.library_recipes.sources import fitted_instances, tiny_instances, zipf_instance

_ZIPF_MACHINES = {
    1: ("a100-pcie4", "v100-pcie3"),
    8: ("a100-pcie4",),
    32: ("v100-pcie3",),
    64: ("h100-pcie5",),
}
_LOOKAHEAD_MODELS = ("mixtral-8x7b", "qwen3-30b-a3b")
_LOOKAHEADS = (1, 2, 4)
# Model, machine, slots (None: the preset's) and lookahead (None: known from the start).
_FITTED: dict[int, tuple[tuple[str, str, int | None, int | None], ...]] = {
    1: (
        ("gpt-oss-20b", "a100-pcie4", None, None),
        ("gpt-oss-20b", "rtx4090-desktop", 4, None),
        ("gpt-oss-20b", "v100-pcie3", 2, 4),
        ("gpt-oss-120b", "h100-pcie5", None, None),
        ("gpt-oss-120b", "rtx4090-desktop", 8, 2),
        ("qwen3-30b-a3b", "rtx4090-desktop", 8, None),
        ("qwen3-30b-a3b", "a100-pcie4", 1, None),
        ("deepseek-v2-lite", "v100-pcie3", 4, 2),
        ("olmoe-1b-7b", "rtx4090-desktop", 2, None),
        ("qwen1.5-moe-a2.7b", "h100-pcie5", 4, None),
        ("mixtral-8x7b", "rtx4090-desktop", 2, None),
        ("mixtral-8x7b", "h100-pcie5", 1, None),
        ("deepseek-v3", "h100-pcie5", 16, None),
        ("deepseek-v3", "a100-pcie4", 4, 4),
    ),
    8: (
        ("gpt-oss-20b", "a100-pcie4", None, None),
        ("gpt-oss-20b", "rtx4090-desktop", 2, None),
        ("gpt-oss-20b", "v100-pcie3", 4, 2),
        ("gpt-oss-20b", "h100-pcie5", 1, None),
        ("gpt-oss-120b", "rtx4090-desktop", 8, 2),
        ("gpt-oss-120b", "h100-pcie5", None, None),
        ("qwen3-30b-a3b", "rtx4090-desktop", 8, None),
        ("qwen3-30b-a3b", "a100-pcie4", 1, None),
        ("deepseek-v2-lite", "h100-pcie5", 4, 2),
        ("olmoe-1b-7b", "rtx4090-desktop", 2, 4),
        ("moonlight-16b-a3b", "h100-pcie5", 4, None),
        ("mixtral-8x7b", "rtx4090-desktop", 2, 2),
        ("mixtral-8x7b", "h100-pcie5", 1, None),
        ("deepseek-v3", "h100-pcie5", 16, None),
    ),
    32: (
        ("gpt-oss-20b", "h100-pcie5", None, None),
        ("gpt-oss-20b", "rtx4090-desktop", 2, 2),
        ("gpt-oss-120b", "h100-pcie5", 8, None),
        ("qwen3-30b-a3b", "rtx4090-desktop", 8, 4),
        ("deepseek-v2-lite", "h100-pcie5", 2, None),
        ("olmoe-1b-7b", "h100-pcie5", 1, None),
        ("mixtral-8x7b", "h100-pcie5", 2, None),
        ("mixtral-8x7b", "rtx4090-desktop", 4, 2),
        ("deepseek-v3", "h100-pcie5", None, None),
    ),
    64: (
        ("gpt-oss-20b", "h100-pcie5", 4, None),
        ("gpt-oss-120b", "a100-pcie4", None, 2),
        ("qwen3-30b-a3b", "h100-pcie5", None, None),
        ("deepseek-v2-lite", "rtx4090-desktop", 1, None),
        ("olmoe-1b-7b", "h100-pcie5", 4, 4),
        ("mixtral-8x7b", "h100-pcie5", None, None),
        ("mixtral-8x7b", "v100-pcie3", 2, 2),
    ),
}
_MOST_ZIPF_MODELS = {64: ("mixtral-8x7b", "deepseek-v2-lite", "gpt-oss-120b", "deepseek-v3")}


def decode_set(batch: int) -> Iterator[InstanceFile]:
    """Zipf routing of the nine models, fitted routing under tighter conditions, and real routing."""
    for model in _MOST_ZIPF_MODELS.get(batch, model_names()):
        for machine in _ZIPF_MACHINES[batch]:
            yield zipf_instance(model, machine, batch)
    if batch <= 8:
        for model in _LOOKAHEAD_MODELS:
            for lookahead in _LOOKAHEADS:
                yield zipf_instance(model, "lab", batch, lookahead=lookahead)
    for model, machine, slots, ahead in _FITTED[batch]:
        yield from fitted_instances(model, machine, batch, slots=slots, lookahead=ahead)
    for machine in ("a100-pcie4", "v100-pcie3"):
        yield from tiny_instances(machine, batch, steps=3 if batch < 64 else 2)
