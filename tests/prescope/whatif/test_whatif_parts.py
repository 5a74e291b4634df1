"""The parts of a what-if: knees, values, forecasts, batches, costs, plots."""

from itertools import pairwise

import numpy as np
import pytest
from example_traces import example_trace
from hypothesis import given, settings
from hypothesis import strategies as st

from prescope.formulation import LinearTime, TableTime, Tier, preset
from prescope.instances import Phase, popularity
from prescope.whatif import (
    Lever,
    Machine,
    Point,
    WhatIfSettings,
    costs_at,
    degraded,
    draw_counts,
    find_knee,
    material,
)
from prescope.whatif.ranges import default_values, parse_values

NOW = Point(memory_bytes=1000, link_bytes_per_s=10**9, recall=0.8)


def test_knee_of_a_curve_that_saturates() -> None:
    values = [1.0, 2.0, 4.0, 8.0, 16.0]
    knee = find_knee(values, [10.0, 19.0, 30.0, 31.0, 31.2])
    assert (knee.index, knee.value) == (2, 4.0)
    # A stretch that rises again is no plateau.
    assert find_knee(values, [10.0, 10.1, 20.0, 30.0, 30.1]).value == 8.0
    assert find_knee(values, [10.0, 10.0, 10.0, 10.0, 10.0]).value == 1.0
    assert find_knee(values[:3], [10.0, 10.6, 10.7]).value == 2.0
    assert find_knee(values[:3], [10.0, 10.4, 10.5]).value == 1.0


def test_knee_that_is_not_there() -> None:
    values, rising = [1.0, 2.0, 4.0], [1.0, 2.0, 4.0]
    assert find_knee(values, rising).index is None
    assert find_knee(values, rising, flat_beyond=True).value == 4.0
    with pytest.raises(ValueError, match="ascending"):
        find_knee([2.0, 1.0], [1.0, 1.0])
    with pytest.raises(ValueError, match="above 0"):
        find_knee([0.0, 1.0], [1.0, 1.0])


@given(st.lists(st.floats(0.5, 50), min_size=2, max_size=8), st.floats(1.1, 3.0))
@settings(max_examples=100, deadline=None)
def test_knee_by_its_definition(speeds: list[float], factor: float) -> None:
    values = [factor**power for power in range(len(speeds))]
    knee = find_knee(values, speeds)
    start = len(values) - 1 if knee.index is None else knee.index

    def rise(at: int) -> float:
        return (speeds[at + 1] / speeds[at]) ** (np.log(2) / np.log(factor)) - 1

    assert all(rise(at) < 0.05 + 1e-9 for at in range(start, len(values) - 1))
    if start > 0:
        assert rise(start - 1) >= 0.05 - 1e-9


def test_values_from_text() -> None:
    total = 100 * 2**30
    found = parse_values(Lever.MEMORY, "2GiB:32GiB:5", total_bytes=total)
    assert found == tuple(2**power * 2**30 for power in range(1, 6))
    assert parse_values(Lever.MEMORY, "50%, 10%", total_bytes=1000) == (100, 500)
    assert parse_values(Lever.LINK, "12,24,12", total_bytes=total) == (12 * 10**9, 24 * 10**9)
    assert parse_values(Lever.RECALL, "1,none,0.5", total_bytes=total) == (None, 0.5, 1.0)
    assert parse_values(Lever.RECALL, "0.5:0.9:3", total_bytes=total) == pytest.approx((0.5, 0.7, 0.9))
    assert parse_values(Lever.BATCH, "1:4:9", total_bytes=total) == (1, 2, 3, 4)


@pytest.mark.parametrize(
    ("lever", "text", "says"),
    [
        (Lever.MEMORY, "many", "--memory: expected an amount of memory such as 4GiB or 25%, got 'many'"),
        (Lever.MEMORY, "0%", "--memory: expected an amount of memory such as 4GiB or 25%, got '0%'"),
        (Lever.MEMORY, "inf%", "--memory: expected an amount of memory"),
        (Lever.MEMORY, "1e30%", "--memory: expected an amount of memory"),
        (Lever.LINK, "0", "--link: expected GB/s from 0.001 to 1,000,000 such as 24, got '0'"),
        (Lever.LINK, "nan", "--link: expected GB/s from"),
        (Lever.LINK, "1e300", "--link: expected GB/s from"),
        (Lever.LINK, "1e-12", "--link: expected GB/s from"),
        (Lever.SPEED, "-1", "--speed: expected a multiple from 0.001 to 1000 such as 2"),
        (Lever.SPEED, "1e-300", "--speed: expected a multiple from"),
        (Lever.BATCH, "1.5", "--batch: expected a whole number from 1 to 100000"),
        (Lever.BATCH, "1e30", "--batch: expected a whole number from 1 to"),
        (Lever.RECALL, "0", "--recall: expected 'none' or a share in"),
        (Lever.RECALL, "1.1", "--recall: expected 'none' or a share in"),
        (Lever.LINK, "4:2:3", "expected LOW:HIGH:COUNT with 0 < LOW < HIGH for --link"),
        (Lever.LINK, "1:2", "expected --link as LOW:HIGH:COUNT with COUNT >= 2"),
        (Lever.RECALL, "none:1:3", "expected LOW:HIGH:COUNT with 0 < LOW < HIGH for --recall"),
    ],
)
def test_values_refused(lever: Lever, text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says.replace("(", r"\(")):
        parse_values(lever, text, total_bytes=1000)


def test_default_values_are_around_now() -> None:
    for lever in Lever:
        values = default_values(lever, NOW, total_bytes=3000, least_bytes=300)
        ranks = [-1.0 if value is None else value for value in values]
        assert all(low < high for low, high in pairwise(ranks))
        assert NOW.value(lever) in values
    assert default_values(Lever.MEMORY, NOW, total_bytes=3000, least_bytes=300) == (
        300,
        500,
        1000,
        2000,
        3000,
    )


def test_settings_make_every_point_once() -> None:
    chosen = WhatIfSettings(
        now=NOW, values={Lever.LINK: (10**9, 2 * 10**9), Lever.RECALL: (None, 1.0)}, grid=True
    )
    points = chosen.points()
    assert points[0] == NOW and len(points) == len(set(points)) == 4 + 2
    with pytest.raises(ValueError, match="ascending"):
        WhatIfSettings(now=NOW, values={Lever.LINK: (2, 1)})
    with pytest.raises(ValueError, match="recall in"):
        Point(memory_bytes=1, link_bytes_per_s=1, recall=0.0)


@pytest.mark.parametrize("recall", [0.4, 0.8])
def test_forecasts_have_the_recall_and_are_calibrated(recall: float) -> None:
    random = np.random.default_rng(0)
    shares = random.random((4, 32)) ** 3
    weights = np.tile(shares, (500, 1))
    keys = random.exponential(size=weights.shape) / weights
    counts = np.where(np.argsort(np.argsort(keys, axis=1), axis=1) < 6, random.integers(1, 4, keys.shape), 0)
    probabilities, tokens = degraded(counts, shares, batch=2, recall=recall, horizons=3, seed=1)
    popular = 1 - (1 - np.clip(shares, 0, 1)) ** 2
    for ahead in range(3):
        for layer in range(ahead + 1):
            # Before the step its tokens are not known.
            assert np.allclose(probabilities[ahead, layer::4], popular[layer])
            assert np.allclose(tokens[ahead, layer::4], 2 * np.clip(shares, 0, 1)[layer])
    late = np.arange(len(counts)) % 4 == 3
    counts, probabilities, tokens = counts[late], probabilities[:, late], tokens[:, late]
    needed = counts > 0
    for ahead in range(3):
        kept = recall * 0.97**ahead
        named = probabilities[ahead] >= kept - 1e-12
        assert named.sum() == needed.sum()
        assert (named & needed).sum() / needed.sum() == pytest.approx(kept, abs=0.01)
        # Reliability, named ones and the rest in bands.
        assert needed[named].mean() == pytest.approx(kept, abs=0.01)
        rest = ~named
        assert needed[rest].mean() == pytest.approx(probabilities[ahead][rest].mean(), abs=0.01)
        assert tokens[ahead].sum() == pytest.approx(counts.sum(), rel=0.1)
        if ahead:
            # Whoever is named earlier is named later too.
            assert not (
                (named & needed) & ~(probabilities[ahead - 1] >= recall * 0.97 ** (ahead - 1) - 1e-12)
            ).any()


def test_an_oracle_tells_the_truth() -> None:
    counts = np.array([[3, 0, 1], [0, 2, 0]])
    probabilities, tokens = degraded(counts, np.ones((1, 3)), batch=3, recall=1.0, horizons=2, seed=0)
    assert (probabilities == (counts > 0)).all() and (tokens == counts).all()


def test_everybody_needed_leaves_nobody_to_be_named_wrongly() -> None:
    counts = np.ones((5, 3), dtype=np.int64)
    probabilities, tokens = degraded(counts, np.ones((5, 3)), batch=2, recall=0.5, horizons=2, seed=0)
    assert np.isfinite(probabilities).all() and np.isfinite(tokens).all()
    assert probabilities.min() >= 0 and probabilities.max() <= 1


def test_batches_are_recorded_tokens() -> None:
    trace = example_trace(lengths=((3, 40), (2, 10), (1, 60)))
    found = material(trace, seed=0)
    assert not found.same and len(found.rows) == 2
    # What stays in memory is known from the other sequences.
    decoded = np.flatnonzero(trace.phase == Phase.DECODE)
    others = np.setdiff1d(decoded, np.concatenate(found.rows))
    assert 0 < len(others) < len(decoded)
    assert (found.shares == popularity(trace, rows=others)).all()
    one = draw_counts(trace, found.rows, batch=1, steps=30, seed=5)
    assert (one.sum(axis=2) == trace.meta.top_k).all()
    recorded = {trace.topk_ids[row].tobytes() for rows in found.rows for row in rows}
    for step in one:
        chosen = [np.flatnonzero(layer) for layer in step]
        assert any(
            all(set(ids[layer]) == set(chosen[layer]) for layer in range(trace.layers))
            for ids in (np.frombuffer(data, dtype=np.int16).reshape(trace.layers, -1) for data in recorded)
        )
    four = draw_counts(trace, found.rows, batch=4, steps=30, seed=5)
    assert ((four - one) >= 0).all() and (four.sum(axis=2) == 4 * trace.meta.top_k).all()
    alone = example_trace(lengths=((0, 50),))
    found = material(alone, seed=0)
    assert found.same
    # Rows begin at places of their own, not all at the sequence's first token.
    first = draw_counts(alone, found.rows, batch=8, steps=1, seed=0)[0]
    assert (first > 0).sum() > alone.layers * alone.meta.top_k


@pytest.mark.parametrize("tier", list(Tier))
def test_costs_of_another_machine(tier: Tier) -> None:
    base = preset("olmoe-1b-7b@nvme-ram" if tier is Tier.DISK else "olmoe-1b-7b@a100-pcie4")
    machine = Machine(name=base.name, costs=base.costs, tier=tier, host_computes=base.host_computes)
    point = Point(memory_bytes=1, link_bytes_per_s=base.costs.link.bytes_per_s * 2, speed=2.0)
    costs = costs_at(machine, point, overhead_ns=7)
    latency = base.costs.link.latency_ns
    assert costs.copy_ns(0) - latency == pytest.approx((base.costs.copy_ns(0) - latency) / 2, abs=1)
    halved, same = ("gpu_ns", "cpu_ns") if tier is Tier.DISK else ("cpu_ns", "gpu_ns")
    assert getattr(costs, halved)(0, 3) == pytest.approx(getattr(base.costs, halved)(0, 3) / 2, abs=2)
    assert getattr(costs, same)(0, 3) == getattr(base.costs, same)(0, 3)
    dense = base.costs.dense_ns(0, 1) / (2 if tier is Tier.DISK else 1)
    assert costs.dense_ns(0, 1) == pytest.approx(dense + 7, abs=2)


def test_measured_tables_scale_too() -> None:
    table = TableTime(tokens=(1, 4), times_ns=(10, 40))
    costs = preset("olmoe-1b-7b@a100-pcie4").costs
    from dataclasses import replace

    machine = Machine(name="m", costs=replace(costs, cpu=(table,)), tier=Tier.RAM, host_computes=True)
    assert costs_at(machine, replace(NOW, speed=0.5)).cpu == (TableTime(tokens=(1, 4), times_ns=(20, 80)),)
    assert isinstance(costs_at(machine, NOW).gpu[0], LinearTime)
