"""The compiled lead DP against a plain reading of its recursion, and its walk against its value."""

import numpy as np
import pytest

from prescope.formulation.reduction import layer_table
from prescope.solver.lead_dp import follow, lead_dp, recourse, value_at

P = 100


def random_tables(rng: np.random.Generator, layers: int, most: int):
    tables = np.zeros((layers, most + 1), dtype=np.int64)
    last = np.zeros((layers, most + 1), dtype=np.int64)
    for layer in range(layers):
        cpu = np.sort(rng.integers(20, 300, most))[::-1].copy()
        # Some device times exceed a copy: then the first late copy decides, not the last.
        gpu = np.sort(rng.integers(5, 250, most))[::-1].copy()
        resident = np.sort(rng.integers(10, 200, 3))
        tables[layer], last[layer], _ = layer_table(cpu, gpu, resident, resident // 4, 50, most)
    return tables, last


def plain_value(tables, last, dense, slots, lookahead, caps):
    """The same recursion at Q = 1 with uniform copies, written without haste."""
    layers, width = tables.shape
    value = np.zeros((layers + 1, slots + 1))
    for layer in reversed(range(layers)):
        for point in range(slots + 1):
            found = []
            for m in range(width if slots else 1):
                q = 0.0 if lookahead == 0 else min(point * P, caps[layer])
                if lookahead == 1:
                    q = min(q, m * P)
                wait = dense if lookahead == 0 else 0
                late = [wait + k * P - q for k in range(1, m + 1) if wait + k * P - q > 0]
                end = float(tables[layer, m])
                for behind, arrival in enumerate(reversed(late)):
                    if behind in (0, len(late) - 1):
                        end = max(end, arrival + sum(last[layer, m - behind : m + 1]))
                busy = dense + last[layer, 1] if m else end
                stall = min(max(busy - (slots * P - q), 0.0), end)
                after = 0.0 if lookahead == 0 else q + end - stall - m * P
                if lookahead == 1:
                    after = min(after, end - dense)
                after = min(after, caps[layer + 1], slots * P)
                grid = np.arange(slots + 1) * P
                low = float(np.interp(max(after, 0.0), grid, value[layer + 1]))
                if after < 0 and slots:
                    low += (value[layer + 1, 1] - value[layer + 1, 0]) * after / P
                found.append(end + low)
            value[layer, point] = min(found)
    return value


@pytest.mark.parametrize("lookahead", [0, 1, 9])
def test_equals_the_plain_recursion(lookahead: int) -> None:
    for seed in range(15):
        rng = np.random.default_rng(seed)
        layers, most, slots = 5, 4, seed % 4
        tables, last = random_tables(rng, layers, most)
        caps = np.full(layers + 1, np.inf) if seed % 2 else rng.integers(0, 400, layers + 1).astype(float)
        ones = np.ones(layers, dtype=np.int64)
        value, choice = lead_dp(
            tables, last, most * ones, 50 * ones, P * ones, slots, 1, lookahead, caps, np.zeros(slots + 1)
        )
        plain = plain_value(tables, last, 50, slots, lookahead, caps)
        assert np.allclose(value, plain), seed
        assert choice.min() >= 0 and choice.max() <= (most if slots else 0)


def test_more_lead_never_hurts_and_saves_at_most_its_own_time() -> None:
    rng = np.random.default_rng(0)
    tables, last = random_tables(rng, 8, 6)
    ones = np.ones(8, dtype=np.int64)
    value, _ = lead_dp(
        tables, last, 6 * ones, 50 * ones, P * ones, 5, 4, 99, np.full(9, np.inf), np.zeros(21)
    )
    falls = -np.diff(value, axis=1)
    assert (falls >= -1e-9).all() and (falls <= P / 4 + 1e-9).all()


def test_the_walk_meets_the_value_on_a_fine_grid() -> None:
    rng = np.random.default_rng(1)
    tables, last = random_tables(rng, 10, 6)
    ones = np.ones(10, dtype=np.int64)
    caps = np.full(11, np.inf)
    value, _ = lead_dp(tables, last, 6 * ones, 50 * ones, P * ones, 5, 50, 99, caps, np.zeros(251))
    copies, ends, leads = follow(tables, last, 6 * ones, 50 * ones, P * ones, 5, 50, 99, caps, value, 0.0)
    assert ends.sum() == pytest.approx(value[0, 0], rel=2e-3)
    assert (leads <= 500).all() and copies.max() <= 6


def test_sizes_that_differ_by_layer_keep_the_lead_in_time() -> None:
    # Layer 1's copies are ten times longer: a lead of one long copy is worth ten short ones.
    cpu = np.array([1000, 1000], dtype=np.int64)
    gpu = np.array([10, 10], dtype=np.int64)
    none = np.zeros(0, dtype=np.int64)
    table, last, _ = layer_table(cpu, gpu, none, none, 500, 2)
    copy_ns = np.array([100, 1000], dtype=np.int64)
    tables, lasts = np.stack([table, table]), np.stack([last, last])
    twos, dense = np.full(2, 2), np.full(2, 500)
    caps = np.full(3, np.inf)
    value, _ = lead_dp(tables, lasts, twos, dense, copy_ns, 4, 2, 99, caps, np.zeros(9))
    assert value_at(value[1], 2000.0, 500.0) == pytest.approx(520)
    copies, ends, leads = follow(tables, lasts, twos, dense, copy_ns, 4, 2, 99, caps, value, 0.0)
    assert copies[0] == 2 and leads[1] == pytest.approx(ends[0] - 200)


def test_recourse_at_a_gate_counts_the_link_and_what_it_holds() -> None:
    cpu = np.array([300, 200], dtype=np.int64)
    gpu = np.array([10, 10], dtype=np.int64)
    none = np.zeros(0, dtype=np.int64)
    table, last, _ = layer_table(cpu, gpu, none, none, 0, 2)
    flat = np.zeros(5)
    free = recourse(table, last, 2, 0, P, P, 0.0, 0.0, 9, 4, 400.0, flat, 100.0)
    busy = recourse(table, last, 2, 0, P, P, -450.0, 0.0, 9, 4, 400.0, flat, 100.0)
    assert free[0] == 1 and free[2] == 200.0
    assert busy[0] == 0 and busy[2] == 500.0
    falling = np.array([1000.0, 500.0, 0.0, 0.0, 0.0])
    held = recourse(table, last, 2, 0, P, P, 0.0, 200.0, 9, 4, 400.0, falling, 100.0)
    assert held[3] >= 200.0 and held[1] == held[2]


@pytest.mark.parametrize(("lead", "expected"), [(-100.0, 14.0), (0.0, 10.0), (50.0, 8.0), (1e9, 6.0)])
def test_value_at(lead: float, expected: float) -> None:
    assert value_at(np.array([10.0, 6.0]), lead, 100.0) == expected
