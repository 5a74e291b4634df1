"""How slow the slow motion must be for real work to fit into modelled time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from prescope.formulation import CostModel
from prescope.formulation.checks import require_int
from prescope.runtime.backends.threads.clock import now_ns
from prescope.runtime.store import HostStore

# Real time may take up half of the dilated time at its 99th percentile; a copy a quarter at its median.
_P99_FACTOR = 2
_COPY_MEDIAN_FACTOR = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Something to measure for one kind of operation.

    Parameters
    ----------
    kind
        ``"dense"``, ``"copy"``, ``"gpu"`` or ``"cpu"``.
    modelled_ns
        Modelled duration of what is measured.
    run
        Does the real work once, on the calling thread.
    """

    kind: str
    modelled_ns: int
    run: Callable[[], None]

    def __post_init__(self) -> None:
        require_int(f"modelled_ns of {self.kind}", self.modelled_ns, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a probe showed.

    Parameters
    ----------
    kind, modelled_ns
        As in the probe.
    p50_ns, p99_ns
        Median and 99th percentile of the real duration.
    """

    kind: str
    modelled_ns: int
    p50_ns: int
    p99_ns: int

    @property
    def needed(self) -> float:
        """Least dilation that leaves room for this kind."""
        real_ns = _P99_FACTOR * self.p99_ns
        if self.kind == "copy":
            real_ns = max(real_ns, _COPY_MEDIAN_FACTOR * self.p50_ns)
        return real_ns / self.modelled_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """A dilation with its reasons.

    Parameters
    ----------
    dilation
        Real time per modelled time.
    measured
        What each probe showed.
    floor_ns
        Least real time of the shortest probed operation.
    """

    dilation: float
    measured: tuple[Measured, ...]
    floor_ns: int


def calibrate(
    probes: Sequence[Probe], *, floor_ns: int = 2_000_000, repeats: int = 40, warmup: int = 5
) -> Calibration:
    """Measure the probes in turn and choose the dilation.

    Parameters
    ----------
    probes
        At least one; they run in rounds, so that a disturbance does not hit one kind alone.
    floor_ns
        Real time that the shortest probed operation must take: threads and sleeps need it.
    repeats, warmup
        Rounds that count and rounds before them.

    Raises
    ------
    ValueError
        Without probes.
    """
    if not probes:
        raise ValueError("expected at least one probe, got none")
    require_int("repeats", repeats, 1)
    times: list[list[int]] = [[] for _ in probes]
    for turn in range(warmup + repeats):
        for probe, durations in zip(probes, times, strict=True):
            start = now_ns()
            probe.run()
            if turn >= warmup:
                durations.append(now_ns() - start)
    measured = tuple(
        Measured(
            kind=probe.kind,
            modelled_ns=probe.modelled_ns,
            p50_ns=_quantile(durations, 0.5),
            p99_ns=_quantile(durations, 0.99),
        )
        for probe, durations in zip(probes, times, strict=True)
    )
    shortest = min(probe.modelled_ns for probe in probes)
    dilation = max(floor_ns / shortest, *(entry.needed for entry in measured))
    return Calibration(dilation=dilation, measured=measured, floor_ns=floor_ns)


def copy_probe(store: HostStore, costs: CostModel) -> Probe:
    """Copies a row of the layer with the least modelled time per byte."""
    import torch

    layer = min(range(store.layers), key=lambda layer: costs.copy_ns(layer) / store.row_bytes(layer))
    with torch.inference_mode(False):
        target = torch.empty_like(store.row(layer, 0))
    turns = iter(range(2**62))

    def run() -> None:
        # Another expert each time: rows in the cache would look faster than they are.
        target.copy_(store.row(layer, next(turns) % store.experts))

    return Probe(kind="copy", modelled_ns=costs.copy_ns(layer), run=run)


def _quantile(durations: Sequence[int], share: float) -> int:
    ordered = sorted(durations)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
