"""A layer's table against all subsets: exact where device times are equal, the relaxed one always below."""

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from prescope.formulation.reduction import IMPOSSIBLE_NS, layer_table
from prescope.formulation.relaxation import fill_relaxed_table


def subsets(count: int):
    return [chosen for size in range(count + 1) for chosen in combinations(range(count), size)]


def best_layer_ns(missing, residents, dense_ns: int, copies: int, host_computes: bool) -> int:
    """The shortest layer with `copies` of the missing, which are free of charge, whichever they are."""
    best = IMPOSSIBLE_NS
    for copied in combinations(range(len(missing)), copies):
        for demoted in subsets(len(residents)):
            host = [missing[k][0] for k in range(len(missing)) if k not in copied]
            host += [residents[k][0] for k in demoted]
            device = [missing[k][1] for k in copied]
            device += [residents[k][1] for k in range(len(residents)) if k not in demoted]
            if host_computes or not host:
                best = min(best, dense_ns + max(sum(host), sum(device)))
    return best


def columns(experts, *, descending: bool):
    rows = sorted(experts, reverse=descending)
    return tuple(np.array([row[side] for row in rows], dtype=np.int64) for side in (0, 1))


def relaxed_table(missing_cpu_ns, *others):
    """The relaxed rows as fresh arrays; what was in them must not matter."""
    rows = np.full((2, len(missing_cpu_ns) + 1), -99, dtype=np.int64)
    fill_relaxed_table(missing_cpu_ns, *others, *rows)
    return rows


host_ns = st.integers(0, 30)


@given(
    st.lists(host_ns, max_size=4),
    st.lists(host_ns, max_size=4),
    st.integers(0, 9),
    st.integers(0, 9),
    st.booleans(),
)
def test_table_is_exact_where_device_times_are_equal(missing, residents, gpu_ns, dense_ns, host_computes):
    missing, residents = [(c, gpu_ns) for c in missing], [(c, gpu_ns) for c in residents]
    table_ns, last_ns, demoted = layer_table(
        *columns(missing, descending=True),
        *columns(residents, descending=False),
        dense_ns,
        len(missing),
        host_computes,
    )
    expected = [
        best_layer_ns(missing, residents, dense_ns, m, host_computes) for m in range(len(missing) + 1)
    ]
    assert table_ns.tolist() == expected
    assert last_ns.tolist() == [0] + [gpu_ns] * len(missing)
    assert demoted.tolist() == sorted(demoted.tolist())


experts = st.lists(st.tuples(host_ns, st.integers(0, 12)), max_size=4)


@given(experts, experts, st.integers(0, 9), st.booleans())
def test_table_is_attained_and_the_relaxed_one_is_below_all(missing, residents, dense_ns, host_computes):
    arguments = (*columns(missing, descending=True), *columns(residents, descending=False), dense_ns)
    table_ns, _, _ = layer_table(*arguments, len(missing), host_computes)
    relaxed_ns, _ = relaxed_table(*arguments, 1, host_computes)
    for copies in range(len(missing) + 1):
        best = best_layer_ns(missing, residents, dense_ns, copies, host_computes)
        assert relaxed_ns[copies] <= best <= table_ns[copies]


@given(experts, st.integers(1, 12))
def test_tail_is_below_every_order_of_landing_copies(missing, copy_ns):
    """Copies land one after another and are computed in that order: the end never beats landing + tail."""
    arguments = (*columns(missing, descending=True), *columns([], descending=False), 0)
    _, tail_ns = relaxed_table(*arguments, copy_ns, True)
    assert tail_ns[0] == 0
    for copies in range(1, len(missing) + 1):
        for copied in combinations(missing, copies):
            # The order that ends first: longest device time first.
            end = landed = 0
            for _, gpu_ns in sorted(copied, key=lambda expert: -expert[1]):
                landed += copy_ns
                end = max(end, landed) + gpu_ns
            assert landed + tail_ns[copies] <= end
