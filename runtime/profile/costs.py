"""From measurements to a cost model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from prescope.formulation import CostModel, LinearTime, Link, TimeCurve
from prescope.instances import MeasuredSeries
from prescope.instances.cost_series import SeriesKind
from prescope.runtime.profile.fit import curve_of, fit_line

# More reads in flight must gain at least this much: one that is waited for shares the disk with all others.
_WORTH_WHILE = 0.1


def costs_of(
    series: Sequence[MeasuredSeries],
    *,
    expert_bytes: Sequence[int],
    threads: int,
    groups: Sequence[Sequence[int]],
    source: str,
    while_reading: bool = False,
) -> CostModel:
    """The cost model of weights on disk: the link is the disk, the device is memory, nothing runs in place.

    Parameters
    ----------
    series
        What `profile_model` measured.
    expert_bytes
        Bytes of one expert in memory, per layer.
    threads
        Threads of the computations.
    groups
        Layers with the same dense work; each MoE layer in one of them.
    source
        For `CostModel.source`.
    while_reading
        Take the time of experts computed while the disk is read, which shares memory and cores with them;
        otherwise that on a quiet machine.

    Raises
    ------
    ValueError
        When a series is missing.
    """
    dense: dict[int, TimeCurve] = {}
    for group in groups:
        dense |= dict.fromkeys(group, curve_of(dense_series(series, threads=threads, layer=group[0])))
    experts = find_series(series, "expert-while-reading" if while_reading else "expert", workers=threads)
    link, _ = link_of(series, expert_bytes=max(expert_bytes))
    return CostModel(
        expert_bytes=tuple(expert_bytes),
        link=link,
        gpu=(curve_of(experts),),
        cpu=(LinearTime(fixed_ns=0),),
        dense=tuple(dense[layer] for layer in range(len(expert_bytes))),
        source=source,
    )


def link_of(series: Sequence[MeasuredSeries], *, expert_bytes: int) -> tuple[Link, int]:
    """The disk as a link, and the reads in flight that it stands for.

    As few reads are in flight as bring an expert within 10 % of the best time per expert. ``Link.copy_ns`` of
    an expert is the measured time PER expert then, what a chain of reads advances by, so that planned chains
    end when real ones do. A lone read may take longer; it stays in the series. ``latency_ns`` is the share of
    that time that does not shrink with the size (the line through the reads of all sizes at that depth), at
    most half of it.

    Parameters
    ----------
    series
        With ``"expert-read"`` and, where the file is large enough, ``"read"`` at that depth.
    expert_bytes
        Bytes of one expert in memory.
    """
    experts = find_series(series, "expert-read")
    best_ns = min(experts.medians_ns)
    chosen = next(point for point in experts.points if point.median_ns <= (1 + _WORTH_WHILE) * best_ns)
    time_ns = max(1, chosen.median_ns)
    latency_ns = 0
    for reads in series:
        if reads.kind == "read" and reads.workers == chosen.x:
            latency_ns = min(fit_line(reads.xs, reads.medians_ns).fixed_ns, time_ns // 2)
    bandwidth = max(1, expert_bytes * 10**9 // (time_ns - latency_ns))
    return Link(bytes_per_s=bandwidth, latency_ns=latency_ns), chosen.x


def dense_series(series: Sequence[MeasuredSeries], *, threads: int, layer: int) -> MeasuredSeries:
    """Dense work of a layer in one series: decoding as far as it was measured, prompts beyond.

    A batch that decodes and a prompt of as many tokens differ (caches, several sequences); small numbers of
    tokens are mostly decoding, large ones always prompts.

    Parameters
    ----------
    series
        What was measured.
    threads
        Threads of the computations.
    layer
        First layer of its group.
    """
    decode = find_series(series, "dense-decode", workers=threads, layer=layer)
    prompt = find_series(series, "dense-prompt", workers=threads, layer=layer)
    beyond = tuple(point for point in prompt.points if point.x > decode.points[-1].x)
    return replace(decode, points=(*decode.points, *beyond))


def reading_slowdown(series: Sequence[MeasuredSeries], *, threads: int) -> float:
    """How many times as long experts take while the disk is read: the median over the tokens."""
    quiet = find_series(series, "expert", workers=threads)
    reading = find_series(series, "expert-while-reading", workers=threads)
    return median(
        slow / max(1, fast) for slow, fast in zip(reading.medians_ns, quiet.medians_ns, strict=True)
    )


def find_series(
    series: Sequence[MeasuredSeries],
    kind: SeriesKind,
    *,
    workers: int | None = None,
    layer: int | None = None,
) -> MeasuredSeries:
    """The first series of a kind; ``ValueError`` without one."""
    for entry in series:
        if entry.kind == kind and workers in (None, entry.workers) and layer == entry.layer:
            return entry
    raise ValueError(
        f"expected measurements of kind {kind} with {workers} workers for layer {layer}, got none"
    )
