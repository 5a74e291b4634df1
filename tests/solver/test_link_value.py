"""Values of the link's lead at a gate against the lead DP, and policy ``expected`` against a plain twin."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from prescope.solver.lead_dp import follow, lead_dp
from prescope.solver.online import ExpectedPolicy, GateState, LayerForecast, SplitPolicy
from prescope.solver.online.future import Outlook
from prescope.solver.online.link_value import fill_lead_values, follow_lead
from prescope.solver.online.outlook_tables import NEGLIGIBLE_NS, expected_maximum


def drawn_layers(random, layers, *, coarse):
    """Tables of layers, with many equal numbers where ``coarse``."""
    most = random.integers(0, 7, layers)
    width = int(most.max()) + 1
    step = 100 if coarse else 1
    tables = np.sort(random.integers(0, 3000 // step, (layers, width)) * step, axis=1)[:, ::-1].copy()
    last = random.integers(0, 400 // step, (layers, width)) * step
    last[:, 0] = 0
    dense = random.integers(0, 500, layers)
    copy = np.full(layers, 300) if random.random() < 0.5 else random.integers(1, 900, layers)
    return tables, last, most, dense, copy


@settings(max_examples=150)
@given(seed=st.integers(0, 10**6), layers=st.integers(1, 5), slots=st.integers(1, 6), coarse=st.booleans())
def test_values_and_copies_are_those_of_the_lead_dp(seed, layers, slots, coarse):
    random = np.random.default_rng(seed)
    tables, last, most, dense, copy = work = drawn_layers(random, layers, coarse=coarse)
    # Room for more than is asked for, holding what was there before.
    value = random.random((layers + 2, slots + 3))
    tails = random.integers(0, 9, (layers + 1, tables.shape[1]))
    fill_lead_values(*work, slots, value, tails)
    caps = np.full(layers + 1, np.inf)
    lookahead = 1 if layers == 1 else 2
    judge, _ = lead_dp(*work, slots, 1, lookahead, caps, np.zeros(slots + 1))
    assert (value[: layers + 1, : slots + 1] == judge).all()
    lead = int(random.integers(-2000, slots * int(copy[0]) + 1))
    copies = np.zeros(layers, dtype=np.int64)
    follow_lead(*work, slots, value, tails, lead, copies)
    assert copies.tolist() == follow(*work, slots, 1, lookahead, caps, judge, float(lead))[0].tolist()


class PlainExpected(SplitPolicy):
    """Policy ``expected`` in plain Python: tables by the book, the lead DP, the split of plain control."""

    def __init__(self, spread):
        super().__init__("plain", ahead=None)
        self.spread = spread

    def decide(self, state):
        outlook = self.outlook(state) if state.future and state.free_slots > 0 else None
        original, Outlook.of = Outlook.of, staticmethod(lambda _: outlook)
        try:
            return super().decide(state)
        finally:
            Outlook.of = original

    def outlook(self, state):
        rows = [self.table(forecast, state.free_slots) for forecast in state.future]
        width = max(len(table) for _, table, _ in rows)
        tables, last = (np.zeros((len(rows), width), dtype=np.int64) for _ in range(2))
        for row, (_, table, ends) in enumerate(rows):
            tables[row, : len(table)], last[row, : len(table)] = table, ends
        dense = np.array([forecast.dense_ns for forecast in state.future])
        copy = np.array([forecast.copy_ns for forecast in state.future])
        most = np.array([len(order) for order, _, _ in rows])
        caps, slots = np.full(len(rows) + 1, np.inf), state.free_slots
        lookahead = 1 if len(rows) == 1 else 2
        value, _ = lead_dp(tables, last, most, dense, copy, slots, 1, lookahead, caps, np.zeros(slots + 1))

        class Plain:
            def best_split(self, end_ns, link_ns):
                leads = np.minimum(end_ns - link_ns, slots * copy[0]) / copy[0]
                steps = np.arange(slots + 1)
                ahead = np.interp(leads, steps, value[0])
                below = leads < 0
                ahead[below] = value[0, 0] + (value[0, 1] - value[0, 0]) * leads[below]
                return int((end_ns + ahead).argmin())

            def wishes(self, lead_ns):
                lead = min(lead_ns, float(slots * copy[0]))
                copies, _, _ = follow(tables, last, most, dense, copy, slots, 1, lookahead, caps, value, lead)
                return tuple(
                    (row + 1, expert)
                    for row, (order, _, _) in enumerate(rows)
                    for expert in order[: copies[row]]
                )

        return Plain()

    def table(self, forecast, slots):
        """Candidates, table and last times as `fill_expected_table` describes them."""
        host = device = brought = variance = 0.0
        wanted = []
        for expert, chance in enumerate(forecast.probability.tolist()):
            time_ns = float((forecast.gpu_ns if forecast.held[expert] else forecast.cpu_ns)[expert])
            if forecast.held[expert]:
                device += time_ns
            else:
                host += time_ns
                if time_ns > NEGLIGIBLE_NS:
                    wanted.append(expert)
                    brought += float(forecast.gpu_ns[expert])
            if chance > 0:
                variance += time_ns * time_ns * (1.0 - chance) / chance
        most = 0
        if wanted:
            by_host = (slots * forecast.copy_ns + host) / (forecast.copy_ns + host / len(wanted))
            most = min(len(wanted), int(max(by_host, slots + (device + brought) / forecast.copy_ns)) + 1)
        order = sorted(wanted, key=lambda expert: (-forecast.cpu_ns[expert], expert))[:most]
        table, last = [], []
        for copies in range(len(order) + 1):
            last.append(0)
            if copies:
                expert = order[copies - 1]
                cpu, gpu = float(forecast.cpu_ns[expert]), float(forecast.gpu_ns[expert])
                chance = float(forecast.probability[expert])
                host, device, last[-1] = host - cpu, device + gpu, int(gpu)
                if chance > 0:
                    variance -= (cpu * cpu - gpu * gpu) * ((1.0 - chance) / chance)
            longest = expected_maximum.py_func(host, device, self.spread * variance)
            table.append(forecast.dense_ns + int(longest))
        return order, table, last


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    experts=st.integers(1, 12),
    ahead=st.integers(0, 4),
    slots=st.integers(0, 5),
    host_computes=st.booleans(),
    spread=st.sampled_from([0.0, 0.5]),
)
def test_expected_decides_as_its_plain_twin(seed, experts, ahead, slots, host_computes, spread):
    random = np.random.default_rng(seed)
    layer = int(random.integers(-1, 3))
    future = []
    for _ in range(ahead):
        chance = np.round(random.random(experts), 1)
        future.append(
            LayerForecast(
                cpu_ns=chance * random.integers(1, 9, experts) * 1000,
                gpu_ns=chance * random.integers(1, 9, experts) * 100,
                probability=chance,
                held=random.random(experts) < 0.3,
                dense_ns=int(random.integers(0, 2000)),
                copy_ns=int(random.integers(100, 6000)),
            )
        )
    tokens = random.integers(0, 3, experts) * (layer >= 0)
    arrival = random.choice([-1, 0, 900, 2500], experts)
    state = GateState(
        layer=layer,
        gpu_ns=tokens * 150,
        cpu_ns=tokens * 1100,
        active=tokens > 0,
        arrival_ns=arrival,
        copy_ns=int(random.integers(100, 6000)),
        link_free_ns=int(random.integers(0, 3000)),
        usable_slots=max(slots, 1),
        free_slots=slots,
        host_computes=host_computes,
        future=tuple(future),
        host_free_ns=int(random.integers(0, 500)),
        pinned=(arrival == 0) & (random.random(experts) < 0.5),
    )
    assert ExpectedPolicy(spread=spread).decide(state) == PlainExpected(spread).decide(state)
