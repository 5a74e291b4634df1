"""How many copies a coming layer's table looks at: all that could come before the layer's end."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from prescope.solver.online.outlook_tables import fill_expected_table


@settings(max_examples=300)
@given(seed=st.integers(0, 10**6), slots=st.integers(0, 12))
def test_a_copy_that_is_left_out_would_have_come_too_late(seed, slots):
    random = np.random.default_rng(seed)
    experts, copy_ns = int(random.integers(8, 60)), int(random.integers(500, 9000))
    held, chance = random.random(experts) < random.choice([0.0, 0.3, 0.8]), random.random(experts)
    # Layers that wait for the host, for the device, and for both.
    cpu = chance * random.uniform(1, 9000, experts) * random.choice([0.05, 1.0])
    gpu = chance * random.uniform(1, 900, experts) * random.choice([0.05, 1.0, 10.0])
    order, last_ns = np.zeros(experts, dtype=np.int64), np.zeros(experts + 1, dtype=np.int64)
    table_ns = np.zeros(experts + 1, dtype=np.int64)
    most = fill_expected_table(
        cpu, gpu, chance, held, 1000, copy_ns, slots, 0.0, 1.0, order, table_ns, last_ns
    )
    wanted = np.flatnonzero(~held & (cpu > 1.0))
    assert most <= len(wanted)
    if most == len(wanted):
        return
    # `slots` copies may be there before the layer begins; the others run while it does.
    late_ns = (most + 1 - slots) * copy_ns
    left_on_host = cpu[~held].sum() - cpu[order[:most]].sum()
    assert late_ns >= left_on_host
    assert late_ns >= gpu[held].sum() + gpu[wanted].sum()
