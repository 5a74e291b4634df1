"""Measures this machine for one model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import date
from pathlib import Path
from typing import Any

from prescope.formulation import Tier
from prescope.instances import CostFile, CostProvenance, MeasuredSeries
from prescope.runtime.plugin.moe_layers import moe_layers
from prescope.runtime.profile.copy_times import time_copies
from prescope.runtime.profile.costs import costs_of, link_of
from prescope.runtime.profile.decode_cache import DecodeCache
from prescope.runtime.profile.dense_times import layer_groups, time_dense
from prescope.runtime.profile.expert_times import time_experts
from prescope.runtime.profile.fingerprint import fingerprint_of
from prescope.runtime.profile.machine import engine_threads, this_machine, usable_cores
from prescope.runtime.profile.raw_file import RawFile
from prescope.runtime.profile.read_times import (
    expert_reader,
    time_expert_reads,
    time_raw_reads,
    while_reading,
)
from prescope.runtime.profile.settings import ProfileSettings
from prescope.runtime.profile.stored_experts import StoredExperts, experts_in_memory
from prescope.runtime.profile.timing import Clock, now_ns

# Quartiles further apart than that, relative to the median, in more of the points than that: a busy machine.
_NOISY_SPREAD = 0.3
_NOISY_SHARE = 0.2
ProfileObserver = Callable[[str, int, int], None]
"""Told what is measured next, how many steps are done, and how many there are."""


def profile_model(
    model: Any,
    store: StoredExperts,
    files: Sequence[Path],
    settings: ProfileSettings | None = None,
    *,
    observe: ProfileObserver = lambda text, done, total: None,
    clock: Clock = now_ns,
) -> CostFile:
    """Measure the disk, memory, experts and dense work of a model on this machine.

    Nothing else should run meanwhile: what disturbs the measurements ends up in the costs.

    Parameters
    ----------
    model
        A transformers model of a supported family, not attached; its experts may be meta tensors.
    store
        Its experts on disk.
    files
        The checkpoint's files; the largest one is read in pieces of several sizes.
    settings
        What is measured and how thoroughly; `ProfileSettings` by default.
    observe
        Told about the progress.
    clock
        The time.

    Raises
    ------
    AttachError
        When the model's family is not supported.
    OSError
        When the disk cannot be read.
    """
    settings = settings or ProfileSettings()
    layers = moe_layers(model)
    threads = engine_threads()
    counts = tuple(sorted({threads, usable_cores()}))
    total, done = 4 + 3 * len(counts), 0

    def begin(text: str) -> None:
        nonlocal done
        observe(text, done, total)
        done += 1

    series: list[MeasuredSeries] = []
    begin("reads of experts")
    series.append(time_expert_reads(store, settings, clock=clock))
    largest_bytes = max(store.row_bytes(layer) for layer in range(store.layers))
    depth = link_of(series, expert_bytes=largest_bytes)[1]
    begin("reads of other sizes")
    with ExitStack() as stack:
        opened = [stack.enter_context(RawFile(path, direct=store.direct)) for path in files]
        for count in sorted({1, depth}):
            reads = time_raw_reads(opened, settings, depth=count, clock=clock)
            series += [] if reads is None else [reads]
    experts = experts_in_memory(store, settings.seed)
    for count in counts:
        begin(f"experts, {count} threads")
        series.append(time_experts(layers[0].experts, experts, settings, threads=count, clock=clock))
    begin(f"experts, {threads} threads, while the disk is read")
    with while_reading(expert_reader(store, depth, settings.seed), depth):
        series.append(
            time_experts(
                layers[0].experts,
                experts,
                settings,
                threads=threads,
                reading=depth,
                clock=clock,
            )
        )
    del experts
    for count in counts:
        begin(f"copies in memory, {count} threads")
        series.append(time_copies(settings, threads=count, clock=clock))
    cache = DecodeCache(
        model, sequences=max(settings.decode_tokens), context=settings.context, seed=settings.seed
    )
    for count in counts:
        begin(f"dense work, {count} threads")
        series += time_dense(model, layers, cache, settings, threads=count, clock=clock)
    begin("writing")
    return CostFile(
        costs=costs_of(
            series,
            expert_bytes=[store.row_bytes(layer) for layer in range(store.layers)],
            threads=threads,
            groups=layer_groups(layers),
            source=f"measured {model.config.model_type} on {usable_cores()} cores from disk",
        ),
        fingerprint=fingerprint_of(model),
        provenance=CostProvenance(
            measured_on=date.today().isoformat(),
            machine=this_machine(),
            threads=threads,
            depth=depth,
            context=cache.context,
            direct=store.direct,
            quick=settings.quick,
            seed=settings.seed,
            notes=_notes(store, settings, cache, series),
        ),
        tier=Tier.DISK,
        host_computes=False,
        series=tuple(series),
    )


def _notes(
    store: StoredExperts, settings: ProfileSettings, cache: DecodeCache, series: Sequence[MeasuredSeries]
) -> str:
    # The store's own words may name places on this machine.
    notes = [] if store.direct else ["reads went through the page cache: direct reads were refused"]
    if cache.context < settings.context:
        notes.append(f"context shortened from {settings.context} to {cache.context} tokens to save memory")
    spreads = [point.spread for entry in series for point in entry.points]
    noisy = sum(spread > _NOISY_SPREAD for spread in spreads)
    if noisy > _NOISY_SHARE * len(spreads):
        notes.append(
            f"{noisy} of {len(spreads)} times spread by more than {_NOISY_SPREAD:.0%}: the machine was busy, "
            "measure again when it is quiet"
        )
    return "; ".join(notes)
