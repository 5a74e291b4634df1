"""Time of a layer's dense work, from gate to gate, by running the model without its experts' arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from prescope.instances import MeasuredSeries
from prescope.instances.cost_series import SeriesKind
from prescope.runtime.plugin.moe_layers import MoeLayer
from prescope.runtime.profile.decode_cache import DecodeCache
from prescope.runtime.profile.only_dense import only_dense
from prescope.runtime.profile.settings import ProfileSettings
from prescope.runtime.profile.threads import intra_op_threads
from prescope.runtime.profile.timing import Clock, Probe, measure, now_ns


def time_dense(
    model: Any,
    layers: tuple[MoeLayer, ...],
    cache: DecodeCache,
    settings: ProfileSettings,
    *,
    threads: int,
    clock: Clock = now_ns,
) -> tuple[MeasuredSeries, ...]:
    """Time the dense work of every layer against the batch's tokens.

    A layer's dense work is everything from the gate before it to its own gate except experts' arithmetic:
    adding up the outputs of the layer before, attention, norms, router, shared experts, decoder layers
    without experts in between, and the sorting of tokens by expert. The first one begins with the embedding.

    Parameters
    ----------
    model, layers
        The model, not attached; its experts may be meta tensors.
    cache
        What decoding sequences have in their caches.
    settings
        Tokens, repeats and seed.
    threads
        Threads of the arithmetic.
    clock
        The time.

    Returns
    -------
    tuple of MeasuredSeries
        One for decoding and one for prompts per group of layers of the same structure (`layer_groups`);
        ``layer`` is the first layer of the group. A group's time is the mean over its layers.
    """
    groups = layer_groups(layers)
    generator = torch.Generator().manual_seed(settings.seed)
    marks: list[int] = []

    def probe(sequences: int, length: int, decoding: bool) -> Probe:
        ids = torch.randint(model.config.vocab_size, (sequences, length), generator=generator)

        def run() -> Sequence[int]:
            arguments = cache.arguments(sequences) if decoding else {"use_cache": False}
            marks.clear()
            began_ns = clock()
            model.base_model(input_ids=ids, **arguments)
            return _group_means([began_ns, *marks], groups)

        return Probe(x=sequences * length, run=run)

    found = []
    at_gate = only_dense(layers, lambda: marks.append(clock()))
    with torch.no_grad(), intra_op_threads(threads), at_gate:
        kinds: tuple[tuple[SeriesKind, list[Probe]], ...] = (
            ("dense-decode", [probe(n, 1, True) for n in settings.decode_tokens]),
            ("dense-prompt", [probe(1, n, False) for n in settings.prefill_tokens]),
        )
        for kind, probes in kinds:
            parts = measure(probes, effort=settings.effort, clock=clock)
            found += [
                MeasuredSeries(
                    kind=kind, label=_layers(group), workers=threads, layer=group[0], points=points
                )
                for group, points in zip(groups, parts, strict=True)
            ]
    return tuple(found)


def layer_groups(layers: tuple[MoeLayer, ...]) -> tuple[tuple[int, ...], ...]:
    """Layers whose dense work is the same: as many decoder layers since the gate before, the first apart."""
    groups: dict[tuple[bool, int], list[int]] = {}
    before = -1
    for index, layer in enumerate(layers):
        place = next(int(part) for part in layer.name.split(".") if part.isdigit())
        groups.setdefault((index == 0, place - before), []).append(index)
        before = place
    return tuple(map(tuple, groups.values()))


def _group_means(marks: Sequence[int], groups: Sequence[Sequence[int]]) -> tuple[int, ...]:
    durations = [after - before for before, after in zip(marks, marks[1:], strict=False)]
    return tuple(sum(durations[layer] for layer in group) // len(group) for group in groups)


def _layers(group: tuple[int, ...]) -> str:
    return f"layer {group[0]}" if len(group) == 1 else f"{len(group)} layers from {group[0]}"
