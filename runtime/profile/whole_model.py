"""Measures this machine for one model."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import date
from functools import partial
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
    cache = DecodeCache(
        model, sequences=max(settings.decode_tokens), context=settings.context, seed=settings.seed
    )
    series: list[MeasuredSeries] = []
    steps = _steps(model, store, files, settings, cache, clock, series)
    for done, (text, run) in enumerate(steps):
        observe(text, done, len(steps))
        series += run()
    observe("done", len(steps), len(steps))
    sizes = [store.row_bytes(layer) for layer in range(store.layers)]
    return CostFile(
        costs=costs_of(
            series,
            expert_bytes=sizes,
            threads=threads,
            groups=layer_groups(layers),
            source=f"measured {model.config.model_type} on {usable_cores()} cores from disk",
        ),
        fingerprint=fingerprint_of(model),
        provenance=CostProvenance(
            measured_on=date.today().isoformat(),
            machine=this_machine(),
            threads=threads,
            depth=link_of(series, expert_bytes=max(sizes))[1],
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


Step = tuple[str, Callable[[], Sequence[MeasuredSeries]]]


def _steps(
    model: Any,
    store: StoredExperts,
    files: Sequence[Path],
    settings: ProfileSettings,
    cache: DecodeCache,
    clock: Clock,
    series: Sequence[MeasuredSeries],
) -> list[Step]:
    """What is measured, in order; later steps look at what earlier ones put into ``series``."""
    layers = moe_layers(model)
    module, engine = layers[0].experts, engine_threads()
    counts = tuple(sorted({engine, usable_cores()}))
    # The costs take those of the engine's threads; the others are for comparison.
    few = (engine,) if settings.quick else counts

    def depth() -> int:
        return link_of(series, expert_bytes=1)[1]

    def reads() -> list[MeasuredSeries]:
        with RawFile(max(files, key=os.path.getsize), direct=store.direct) as file:
            found = [
                time_raw_reads(file, settings, depth=count, clock=clock) for count in sorted({1, depth()})
            ]
        return [entry for entry in found if entry is not None]

    def experts() -> list[MeasuredSeries]:
        weights = experts_in_memory(store, settings.seed)
        found = [time_experts(module, weights, settings, threads=count, clock=clock) for count in counts]
        in_flight = depth()
        with while_reading(expert_reader(store, in_flight, settings.seed), in_flight):
            found.append(
                time_experts(module, weights, settings, threads=engine, reading=in_flight, clock=clock)
            )
        return found

    return [
        ("reads of experts", lambda: [time_expert_reads(store, settings, clock=clock)]),
        ("reads of other sizes", reads),
        ("experts", experts),
        ("copies in memory", lambda: [time_copies(settings, threads=count, clock=clock) for count in few]),
        *(
            (
                f"dense work, {count} thread{'s' if count > 1 else ''}",
                partial(time_dense, model, layers, cache, settings, threads=count, clock=clock),
            )
            for count in few
        ),
    ]


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
