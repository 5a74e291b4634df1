"""From measurements to a cost model."""

from __future__ import annotations

from collections.abc import Sequence

from prescope.formulation import CostModel, LinearTime, Link, TimeCurve
from prescope.instances import MeasuredSeries
from prescope.runtime.profile.fit import curve_of, fit_line

# More reads in flight must gain at least this much: each costs a thread and a buffer.
_WORTH_WHILE = 0.05


def costs_of(
    series: Sequence[MeasuredSeries],
    *,
    expert_bytes: Sequence[int],
    threads: int,
    groups: Sequence[Sequence[int]],
    source: str,
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

    Raises
    ------
    ValueError
        When a series is missing.
    """
    dense: dict[int, TimeCurve] = {}
    for group in groups:
        decode, prompt = _dense_series(series, threads, group[0])
        dense |= dict.fromkeys(group, curve_of(join(decode, prompt)))
    link, _ = link_of(series, expert_bytes=max(expert_bytes))
    return CostModel(
        expert_bytes=tuple(expert_bytes),
        link=link,
        gpu=(curve_of(_expert_series(series, threads)),),
        cpu=(LinearTime(fixed_ns=0),),
        dense=tuple(dense[layer] for layer in range(len(expert_bytes))),
        source=source,
    )


def link_of(series: Sequence[MeasuredSeries], *, expert_bytes: int) -> tuple[Link, int]:
    """The disk as a link, and the reads in flight that it stands for.

    As few reads are in flight as bring an expert within 5 % of the best time per expert. ``Link.copy_ns`` of
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
    experts = _only(series, "expert-read")
    best_ns = min(experts.medians_ns)
    chosen = next(point for point in experts.points if point.median_ns <= (1 + _WORTH_WHILE) * best_ns)
    time_ns = max(1, chosen.median_ns)
    latency_ns = 0
    for reads in series:
        if reads.kind == "read" and reads.workers == chosen.x:
            latency_ns = min(fit_line(reads.xs, reads.medians_ns).fixed_ns, time_ns // 2)
    bandwidth = max(1, expert_bytes * 10**9 // (time_ns - latency_ns))
    return Link(bytes_per_s=bandwidth, latency_ns=latency_ns), chosen.x


def join(decode: MeasuredSeries, prompt: MeasuredSeries) -> MeasuredSeries:
    """One series against tokens: decoding as far as it was measured, prompts beyond.

    A batch that decodes and a prompt with as many tokens differ (caches, several sequences); small numbers of
    tokens are mostly decoding, large ones always prompts.
    """
    beyond = tuple(point for point in prompt.points if point.x > decode.points[-1].x)
    return MeasuredSeries(
        kind="dense",
        label=decode.label,
        workers=decode.workers,
        layer=decode.layer,
        points=(*decode.points, *beyond),
    )


def _dense_series(
    series: Sequence[MeasuredSeries], threads: int, layer: int
) -> tuple[MeasuredSeries, MeasuredSeries]:
    found = [
        entry for entry in series if (entry.kind, entry.workers, entry.layer) == ("dense", threads, layer)
    ]
    if len(found) != 2:
        raise ValueError(
            f"expected dense times of layer {layer} with {threads} threads for decoding and for prompts, "
            f"got {len(found)} series"
        )
    return found[0], found[1]


def _expert_series(series: Sequence[MeasuredSeries], threads: int) -> MeasuredSeries:
    for entry in series:
        if entry.kind == "expert" and entry.workers == threads:
            return entry
    raise ValueError(f"expected expert times with {threads} threads, got none")


def _only(series: Sequence[MeasuredSeries], kind: str) -> MeasuredSeries:
    for entry in series:
        if entry.kind == kind:
            return entry
    raise ValueError(f"expected a series of kind {kind}, got none")
