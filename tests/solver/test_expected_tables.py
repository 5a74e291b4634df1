"""Expected tables of coming layers against sums by hand and against drawn layers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prescope.solver.online.outlook_tables import expected_maximum, fill_expected_table

DENSE_NS, COPY_NS = 1000, 5000


def table(cpu_ns, gpu_ns, chance, held, *, slots=4, spread=0.0, copy_ns=COPY_NS):
    experts = len(cpu_ns)
    order = np.full(experts, -1, dtype=np.int64)
    table_ns, last_ns = np.zeros(experts + 1, dtype=np.int64), np.zeros(experts + 1, dtype=np.int64)
    most = fill_expected_table(
        np.asarray(cpu_ns, dtype=np.float64),
        np.asarray(gpu_ns, dtype=np.float64),
        np.asarray(chance, dtype=np.float64),
        np.asarray(held, dtype=np.bool_),
        DENSE_NS,
        copy_ns,
        slots,
        spread,
        1.0,
        order,
        table_ns,
        last_ns,
    )
    return order[:most].tolist(), table_ns[: most + 1].tolist(), last_ns[: most + 1].tolist()


experts = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 9000), st.integers(0, 900), st.booleans()),
    min_size=1,
    max_size=9,
)


@given(experts=experts, slots=st.integers(0, 9), copy_ns=st.sampled_from([1, 3000, 10**9]))
def test_without_spread_a_table_is_the_larger_sum(experts, slots, copy_ns):
    chance, cpu, gpu, held = (np.array(column) for column in zip(*experts, strict=True))
    cpu, gpu = chance * cpu, chance * gpu
    order, table_ns, last_ns = table(cpu, gpu, chance, held, slots=slots, copy_ns=copy_ns)
    wanted = [
        expert for expert in np.argsort(-cpu, kind="stable").tolist() if not held[expert] and cpu[expert] > 1
    ]
    assert order == wanted[: len(order)]
    if len(order) < len(wanted):
        # One more could not have come before the layer's end.
        device = gpu[held].sum() + gpu[wanted].sum()
        left = cpu[~held].sum() - cpu[order].sum()
        assert (len(order) + 1 - slots) * copy_ns >= max(left, device)
    assert last_ns == [0, *(int(gpu[expert]) for expert in order)]
    for copies, value in enumerate(table_ns):
        brought = order[:copies]
        device = gpu[held].sum() + gpu[brought].sum()
        assert value == pytest.approx(DENSE_NS + max(cpu[~held].sum() - cpu[brought].sum(), device), abs=1)


@given(
    seed=st.integers(0, 10**9),
    slots=st.integers(0, 9),
    levels=st.integers(1, 200),
    copy_ns=st.integers(1, 9000),
)
def test_the_heaviest_of_many_come_in_order(seed, slots, levels, copy_ns):
    # Few levels make many equals, and a few of a hundred times the rest a mean that says little.
    random = np.random.default_rng(seed)
    number = int(random.integers(1, 130))
    cpu = random.integers(0, levels + 1, number) * np.where(random.random(number) < 0.05, 100.0, 1.0)
    held = random.random(number) < random.choice([0.0, 0.3, 0.9])
    order, _, _ = table(cpu, cpu / 9, np.full(number, 0.5), held, slots=slots, copy_ns=copy_ns)
    wanted = [
        expert for expert in np.argsort(-cpu, kind="stable").tolist() if not held[expert] and cpu[expert] > 1
    ]
    assert order == wanted[: len(order)]
    assert len(order) > 0 or not wanted


@given(experts=experts, spread=st.floats(0.01, 1))
def test_spread_only_lengthens_and_certainty_has_none(experts, spread):
    chance, cpu, gpu, held = (np.array(column) for column in zip(*experts, strict=True))
    cpu, gpu = chance * cpu, chance * gpu
    _, flat, _ = table(cpu, gpu, chance, held)
    _, spread_out, _ = table(cpu, gpu, chance, held, spread=spread)
    assert all(wide >= narrow - 1 for wide, narrow in zip(spread_out, flat, strict=True))
    sure = np.ones(len(experts))
    assert table(cpu, gpu, sure, held, spread=spread) == table(cpu, gpu, sure, held)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_brought_brings_its_variance_along(seed):
    random = np.random.default_rng(seed)
    chance, held = random.uniform(0.05, 1.0, 30), random.random(30) < 0.4
    cpu, gpu = chance * random.uniform(500, 1500, 30), chance * random.uniform(300, 900, 30)
    order, table_ns, _ = table(cpu, gpu, chance, held, slots=9, copy_ns=1, spread=0.7)
    there = held.copy()
    for copies, value in enumerate(table_ns):
        there[order[:copies]] = True
        times = np.where(there, gpu, cpu)
        spread = 0.7 * (times**2 * (1 - chance) / chance).sum()
        mean = expected_maximum(cpu[~there].sum(), gpu[there].sum(), spread)
        assert value == pytest.approx(DENSE_NS + mean, abs=1)
    assert len(order) == (~held).sum()


def test_the_expected_maximum_is_that_of_drawn_layers():
    random = np.random.default_rng(0)
    chance = random.uniform(0.2, 0.8, 40)
    held = np.arange(40) < 20
    cpu_ns, gpu_ns = 1000.0, 900.0
    drawn = random.random((20_000, 40)) < chance
    times = np.maximum(drawn[:, ~held].sum(1) * cpu_ns, drawn[:, held].sum(1) * gpu_ns)
    _, table_ns, _ = table(chance * cpu_ns, chance * gpu_ns, chance, held, spread=1.0)
    assert table_ns[0] - DENSE_NS == pytest.approx(times.mean(), rel=0.01)
    _, biased, _ = table(chance * cpu_ns, chance * gpu_ns, chance, held)
    assert biased[0] - DENSE_NS < 0.97 * times.mean()


def test_the_maximum_of_normal_variables_by_hand():
    # Two equal means: the mean of the larger is above them by the deviation of the difference / sqrt(2 pi).
    assert expected_maximum(5.0, 5.0, 4.0) == pytest.approx(5 + 2 / np.sqrt(2 * np.pi))
    assert expected_maximum(100.0, 5.0, 4.0) == 100.0
    assert expected_maximum(3.0, 7.0, 0.0) == 7.0
    # Two deviations apart the smaller one still counts: 2 * Phi(2) + phi(2).
    assert expected_maximum(4.0, 0.0, 4.0) == pytest.approx(2 * (2 * 0.977250 + 0.053991), abs=1e-5)
