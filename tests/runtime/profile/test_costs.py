"""From measurements to a cost model: the disk as a link, decoding and prompts in one curve."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prescope.formulation import LinearTime, TableTime
from prescope.instances import MeasuredPoint, MeasuredSeries
from prescope.instances.cost_series import SeriesKind
from prescope.runtime.profile import costs_of, dense_series, find_series, link_of, reading_slowdown


def series(
    kind: SeriesKind, times_ns: Mapping[int, int], *, workers: int = 1, layer: int | None = None
) -> MeasuredSeries:
    points = tuple(
        MeasuredPoint(x=x, median_ns=ns, low_ns=ns, high_ns=ns, repeats=3) for x, ns in times_ns.items()
    )
    return MeasuredSeries(kind=kind, label="test", workers=workers, layer=layer, points=points)


@given(st.integers(1, 2**40), st.integers(1, 10**12), st.integers(0, 10**12))
def test_a_chain_of_copies_takes_as_long_as_a_chain_of_reads(
    expert_bytes: int, time_ns: int, latency_ns: int
) -> None:
    reads = series("read", {4096: latency_ns, 8192: latency_ns}, workers=1)
    link, depth = link_of([series("expert-read", {1: time_ns}), reads], expert_bytes=expert_bytes)
    assert depth == 1
    assert link.latency_ns <= time_ns // 2
    # Bandwidth is a whole number of bytes per second, which is coarse for a few bytes in a long time.
    slack_ns = 2 + 2 * time_ns * time_ns // (expert_bytes * 10**9)
    assert abs(link.copy_ns(expert_bytes) - time_ns) <= slack_ns


def test_as_few_reads_in_flight_as_are_nearly_best() -> None:
    def depth(*times_ns: int) -> int:
        reads = series("expert-read", dict(zip((1, 2, 4, 8), times_ns, strict=True)))
        return link_of([reads], expert_bytes=100)[1]

    assert depth(1000, 1000, 1000, 1000) == 1
    assert depth(1000, 700, 600, 550) == 4
    assert depth(1000, 700, 600, 545) == 8
    assert depth(1000, 500, 900, 1200) == 2


def test_the_latency_is_that_of_reads_at_the_chosen_depth() -> None:
    reads = series("expert-read", {1: 5000, 4: 3000})
    lone = series("read", {1000: 2100, 2000: 2200}, workers=1)
    four = series("read", {1000: 600, 2000: 700}, workers=4)
    link, depth = link_of([reads, lone, four], expert_bytes=10_000)
    assert (depth, link.latency_ns) == (4, 500)
    assert link.copy_ns(10_000) == pytest.approx(3000, abs=2)
    assert link_of([reads, lone], expert_bytes=10_000)[0].latency_ns == 0


def test_decoding_first_then_prompts() -> None:
    measured = [
        series("dense-prompt", {16: 99, 32: 99, 64: 640}, workers=2, layer=1),
        series("dense-decode", {1: 10, 32: 320}, workers=2, layer=0),
        series("dense-decode", {1: 20, 32: 330}, workers=2, layer=1),
        series("dense-decode", {1: 1, 32: 2}, workers=1, layer=1),
    ]
    joined = dense_series(measured, threads=2, layer=1)
    assert (joined.xs, joined.medians_ns) == ((1, 32, 64), (20, 330, 640))
    with pytest.raises(ValueError, match="kind dense-prompt with 2 workers for layer 0, got none"):
        dense_series(measured, threads=2, layer=0)


def measurements() -> list[MeasuredSeries]:
    return [
        series("expert-read", {1: 5000, 4: 3000}),
        series("expert", {1: 70, 8: 70, 64: 900}, workers=2),
        series("expert", {1: 100, 8: 100, 64: 1000}, workers=1),
        series("expert-while-reading", {1: 150, 8: 110, 64: 1200}, workers=1),
        series("dense-decode", {1: 10_100, 2: 10_200, 4: 10_400}, layer=0),
        series("dense-prompt", {4: 10_300, 64: 16_400}, layer=0),
        series("dense-decode", {1: 50, 4: 50}, layer=1),
        series("dense-prompt", {64: 4000}, layer=1),
    ]


def test_costs_take_the_threads_of_the_engine_and_every_group() -> None:
    costs = costs_of(measurements(), expert_bytes=[3000] * 3, threads=1, groups=[(0, 2), (1,)], source="here")
    assert costs.gpu == (TableTime(tokens=(1, 8, 64), times_ns=(100, 100, 1000)),)
    assert costs.cpu == (LinearTime(fixed_ns=0),)
    line = costs.dense[0]
    assert isinstance(line, LinearTime) and line(64) == pytest.approx(16_400, rel=1e-3)
    assert costs.dense == (line, TableTime(tokens=(1, 4, 64), times_ns=(50, 50, 4000)), line)
    assert (costs.source, costs.layers, costs.copy_ns(0)) == ("here", 3, 3000)


def test_experts_may_be_taken_as_they_are_while_the_disk_is_read() -> None:
    costs = costs_of(
        measurements(),
        expert_bytes=[3000] * 2,
        threads=1,
        groups=[(0,), (1,)],
        source="here",
        while_reading=True,
    )
    assert costs.gpu_ns(0, 1) == 150
    assert reading_slowdown(measurements(), threads=1) == pytest.approx(1.2)


def test_what_was_not_measured_is_named() -> None:
    with pytest.raises(ValueError, match="kind copy with None workers"):
        find_series(measurements(), "copy")
    with pytest.raises(ValueError, match="kind expert with 3 workers"):
        costs_of(measurements(), expert_bytes=[1], threads=3, groups=[], source="")
