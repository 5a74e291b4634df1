"""Decisions at a gate: the split against all its choices one by one, and the outlook on cases by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prescope.solver.online import GateState, LayerForecast, gate_policies, make_gate_policy
from prescope.solver.online.future import Outlook
from prescope.solver.online.split import split_costs

times = st.integers(0, 20)
pairs = st.lists(st.tuples(times, times), max_size=3)


def array(values):
    return np.array(values, dtype=np.int64)


def played_out(ready, late, copied, host, *, copy_ns, link_free_ns, host_free_ns, slots):
    """End of a layer and of its copies when exactly this is done, one event after another."""
    device_ns = sum(gpu for gpu, _ in ready)
    for arrival_ns, gpu, _ in late:
        device_ns = max(device_ns, arrival_ns) + gpu
    done, link_ns = [], link_free_ns
    for index, (gpu, _) in enumerate(copied):
        # A copy needs the slot of the one ``slots`` places ahead of it, whose expert must be computed.
        start_ns = max(link_ns, done[index - slots]) if index >= slots else link_ns
        link_ns = start_ns + copy_ns
        device_ns = max(device_ns, link_ns) + gpu
        done.append(device_ns)
    host_ns = host_free_ns + sum(cpu for *_, cpu in host) if host else 0
    return max(device_ns, host_ns), link_ns


@given(
    ready=pairs,
    late=st.lists(st.tuples(st.integers(1, 40), times, times), max_size=3),
    missing=pairs,
    copy_ns=times,
    link_free_ns=st.integers(0, 20),
    host_free_ns=st.integers(0, 20),
    slots=st.integers(0, 3),
    host_computes=st.booleans(),
    every=st.booleans(),
)
def test_every_split_is_the_best_of_all_choices(
    ready, late, missing, copy_ns, link_free_ns, host_free_ns, slots, host_computes, every
):
    ready = sorted(ready, key=lambda expert: expert[1])
    late = sorted(late)
    missing = sorted(missing, key=lambda expert: -expert[1])
    link = {"copy_ns": copy_ns, "link_free_ns": link_free_ns, "host_free_ns": host_free_ns}
    link["slots"] = slots
    end_ns, waited, demoted, link_ns = split_costs(
        *(array([expert[part] for expert in ready]) for part in (0, 1)),
        *(array([expert[part] for expert in late]) for part in (0, 1, 2)),
        *(array([expert[part] for expert in missing]) for part in (0, 1)),
        copy_ns,
        link_free_ns,
        host_free_ns,
        slots,
        host_computes,
        every or not host_computes,
    )
    assert end_ns.shape[0] <= (len(missing) + 1 if slots else 1)
    if every or not host_computes:
        assert end_ns.shape[0] == (len(missing) + 1 if slots else 1)
    elif end_ns.shape[0] <= len(missing) and slots:
        # What is left out starts only when the layer could have ended.
        assert link_free_ns + (end_ns.shape[0] - 1) * copy_ns >= end_ns[-1]
    for copies in range(end_ns.shape[0]):

        def play(wait, demote, copies=copies):
            host = [*missing[copies:], *late[wait:], *ready[:demote]]
            return played_out(ready[demote:], late[:wait], missing[:copies], host, **link)

        choices = [
            (play(wait, demote)[0], wait, demote)
            for wait in range(0 if host_computes else len(late), len(late) + 1)
            for demote in range(len(ready) + 1 if host_computes else 1)
        ]
        assert (end_ns[copies], waited[copies], demoted[copies]) == min(choices)
        assert (end_ns[copies], link_ns[copies]) == play(int(waited[copies]), int(demoted[copies]))


@given(
    seed=st.integers(0, 10**9),
    late=st.integers(0, 2),
    link_free_ns=st.integers(0, 60),
    slots=st.integers(1, 4),
    spare_ns=st.integers(0, 60),
)
def test_copies_passed_over_are_no_better(seed, late, link_free_ns, slots, spare_ns):
    random = np.random.default_rng(seed)

    def drawn(number, most=20):
        return random.integers(0, most + 1, number)

    ready, missing = int(random.integers(0, 3)), int(random.integers(0, 9))
    sides = (
        drawn(ready), np.sort(drawn(ready)), np.sort(drawn(late)) + 1, drawn(late), drawn(late),
        drawn(missing), -np.sort(-drawn(missing)),
    )  # fmt: skip
    rest = (int(random.integers(1, 20)), link_free_ns, int(random.integers(0, 20)), slots, True, False)
    end_ns, *_, link_ns = split_costs(*sides, *rest)
    short_ns = split_costs(*sides, *rest, spare_ns)[0]
    assert short_ns.tolist() == end_ns[: len(short_ns)].tolist()
    assert split_costs(*sides, *rest, 0)[0].min() == end_ns.min()
    # Whatever leads are worth, if it is no more than what may be spared: less lead is worth no more.
    worth = np.append(spare_ns, np.sort(random.integers(0, spare_ns + 1, 40))[::-1])
    lead_ns = end_ns - link_ns
    value = np.where(lead_ns < 0, spare_ns - lead_ns, worth[np.clip(lead_ns, 0, 40)])
    assert (end_ns + value).argmin() == (end_ns + value)[: len(short_ns)].argmin()


def forecast(cpu_ns, *, held=(), dense_ns=10, copy_ns=100):
    cpu = np.array(cpu_ns, dtype=np.float64)
    mask = np.zeros(cpu.shape, dtype=bool)
    mask[list(held)] = True
    chance = (cpu > 0) * 0.5
    return LayerForecast(
        cpu_ns=cpu, gpu_ns=cpu / 100, probability=chance, held=mask, dense_ns=dense_ns, copy_ns=copy_ns
    )


def gate(*future, layer=0, cpu_ns=(0, 0, 0, 0), free_slots=4, link_free_ns=0, copy_ns=100, **changes):
    cpu = array(cpu_ns)
    fields = {
        "layer": layer,
        "gpu_ns": (cpu > 0).astype(np.int64),
        "cpu_ns": cpu,
        "active": cpu > 0,
        "arrival_ns": np.full(cpu.shape, -1, dtype=np.int64),
        "copy_ns": copy_ns,
        "link_free_ns": link_free_ns,
        "usable_slots": 4,
        "free_slots": free_slots,
        "host_computes": True,
        "future": future,
    }
    return GateState(**{**fields, **changes})


def test_an_outlook_names_what_is_worth_a_copy_heaviest_first():
    outlook = Outlook.of(gate(forecast([300, 900, 0.5, 600], held=[3])))
    assert outlook.order[0].tolist() == [1, 0]
    # The link has been free for as long as two copies take.
    assert outlook.wishes(200.0) == ((1, 1), (1, 0))


def test_wishes_reach_past_a_layer_that_needs_nothing():
    outlook = Outlook.of(gate(forecast([0, 0, 0, 0]), forecast([0, 0, 900, 0])))
    assert outlook.wishes(100.0) == ((2, 2),)


def test_a_copy_now_is_declined_when_the_link_is_worth_more_to_the_next_layer():
    outlook = Outlook.of(gate(forecast([0, 10_000, 0, 0])))
    end_ns, link_ns = array([100, 99]), array([0, 99])
    assert outlook.best_split(end_ns, link_ns) == 0
    # Not for the sake of a layer that needs nothing.
    assert Outlook.of(gate(forecast([0, 0, 0, 0]))).best_split(end_ns, link_ns) == 1


@pytest.mark.parametrize("name", gate_policies())
def test_the_start_of_a_batch_computes_nothing_and_brings_what_the_rule_allows(name):
    policy = make_gate_policy(name)
    future = (forecast([0, 0, 900, 0]), forecast([0, 800, 0, 0]))[: policy.horizon(2)]
    decision = policy.decide(gate(*future, layer=-1))
    assert (decision.gpu, decision.cpu, decision.demand) == ((), (), ())
    looking = ("presched", "dp", "expected", "klotski", "fate", "hybrimoe")
    first = (1, 2) if name in looking else None
    assert decision.prefetch[:1] == ((first,) if first else ())
    # Without a free slot nothing can be brought.
    assert not policy.decide(gate(*future, layer=-1, free_slots=0)).prefetch


@pytest.mark.parametrize("name", gate_policies())
@given(data=st.data())
def test_a_decision_serves_every_active_expert_once(name, data):
    numbers = st.lists(st.integers(0, 300), min_size=4, max_size=4)
    cpu = data.draw(numbers)
    arrival = data.draw(st.lists(st.sampled_from([-1, 0, 50, 400]), min_size=4, max_size=4))
    host = data.draw(st.booleans())
    policy = make_gate_policy(name)
    future = tuple(forecast(data.draw(numbers)) for _ in range(policy.horizon(2)))
    decision = policy.decide(
        gate(*future, cpu_ns=cpu, arrival_ns=array(arrival), host_computes=host, usable_slots=2)
    )
    active = [expert for expert, time_ns in enumerate(cpu) if time_ns]
    assert sorted(decision.gpu + decision.cpu) == active
    if not host:
        assert not decision.cpu
    missing = {expert for expert in active if arrival[expert] < 0}
    assert decision.demand == tuple(expert for expert in decision.gpu if expert in missing)
    weights = [cpu[expert] for expert in decision.demand]
    assert weights == sorted(weights, reverse=True)
