"""The rule for copies that run into the next gate, against a plain reckoning of the same expectation."""

from math import exp

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from prescope.solver.online.overlap import worth_overlap


def plain_gain(case):
    """What the copy is expected to save, written as the docstring says it."""
    cpu, gpu, chance, there, expert = (case[name] for name in ("cpu", "gpu", "chance", "there", "expert"))
    copy, over, ahead, value, step = (case[name] for name in ("copy", "over", "ahead", "value", "step"))
    others = [other for other in range(len(cpu)) if not there[other] and other != expert]
    device = sum(gpu[other] for other in range(len(cpu)) if there[other])
    mean = sum(chance[other] for other in others)
    each_cpu = sum(cpu[other] for other in others) / mean if mean else 0.0
    each_gpu = sum(gpu[other] for other in others) / mean if mean else 0.0

    def worth(lead):
        place = np.clip(lead / step, None, len(value) - 1)
        low = int(max(place, 0))
        if low + 1 == len(value):
            return value[-1]
        return value[low] + (value[low + 1] - value[low]) * (place - low)

    def least(host, device, free, missing, lead):
        found = []
        for copies in range(missing + 1):
            link = free + copies * copy
            end = max(host + (missing - copies) * each_cpu, device + copies * each_gpu)
            if copies:
                end = max(end, link + each_gpu)
            found.append(end + worth(end - link + lead))
            if len(found) > 1 and found[-1] >= found[-2]:
                break
        return min(found)

    def saved(missing):
        if expert < 0:
            return least(0, device, 0, missing, ahead) - least(0, device, over, missing, ahead + copy)
        share = chance[expert]
        unneeded = least(0, device, 0, missing, ahead) - least(0, device, over, missing, ahead)
        if not share:
            return unneeded
        own_cpu, own_gpu = cpu[expert] / share, gpu[expert] / share
        without = min(
            least(own_cpu, device, 0, missing, ahead),
            least(0, max(device, copy) + own_gpu, copy, missing, ahead),
        )
        with_copy = min(
            least(own_cpu, device, over, missing, ahead),
            least(0, max(device, over) + own_gpu, over, missing, ahead),
        )
        return share * (without - with_copy) + (1 - share) * unneeded

    if mean > 12:
        return saved(int(mean + 0.5))
    weights = [exp(-mean)]
    while len(weights) - 1 <= mean or weights[-1] >= 1e-3:
        weights.append(weights[-1] * mean / len(weights))
    return sum(weight * saved(missing) for missing, weight in enumerate(weights[:-1]))


def random_case(seed):
    random = np.random.default_rng(seed)
    experts, copy = int(random.integers(1, 24)), int(random.integers(50, 2000))
    chance = random.random(experts) * random.choice([0.2, 1.0])
    there = random.random(experts) < 0.3
    return {
        "cpu": chance * random.uniform(100, 1500),
        "gpu": chance * random.uniform(10, 200),
        "chance": chance,
        "there": there,
        "expert": int(random.choice(np.append(np.flatnonzero(~there), -1))),
        "copy": copy,
        "over": int(random.integers(1, copy + 1)),
        "ahead": int(random.integers(0, 3)) * copy,
        "value": -np.sort(-random.random(int(random.integers(1, 9))) * 3000),
        "step": int(random.integers(50, 2000)),
    }


def asked(case):
    return worth_overlap(
        *(case[name] for name in ("cpu", "gpu", "chance", "there", "expert", "copy", "over", "ahead")),
        case["value"],
        case["step"],
    )


@settings(max_examples=300)
@given(st.integers(0, 10**9))
def test_it_is_the_plain_reckoning(seed):
    case = random_case(seed)
    gain = plain_gain(case)
    if abs(gain) > 1e-6:
        assert asked(case) == (gain > 0)


def simple(**changes):
    """Eight experts that the host takes 900 for, a copy of 1000, and link time that is worth little."""
    case = {
        "cpu": np.full(8, 900.0 * 0.25),
        "gpu": np.full(8, 50.0 * 0.25),
        "chance": np.full(8, 0.25),
        "there": np.zeros(8, dtype=bool),
        "expert": 0,
        "copy": 1000,
        "over": 700,
        "ahead": 0,
        "value": np.linspace(100.0, 0.0, 5),
        "step": 1000,
    }
    return case | changes


def test_a_guess_waits_and_a_safe_bet_does_not():
    assert not asked(simple())
    sure = simple()
    sure["chance"] = np.array([0.99, *[0.05] * 7])
    sure["cpu"], sure["gpu"] = 900.0 * sure["chance"], 50.0 * sure["chance"]
    assert asked(sure)


def test_where_nothing_else_can_be_missing_a_copy_never_waits():
    alone = simple(there=np.array([False, *[True] * 7]))
    assert asked(alone)


def test_the_dearer_the_link_later_the_sooner_it_starts():
    assert not asked(simple(expert=-1))
    assert asked(simple(expert=-1, value=np.linspace(8000.0, 0.0, 5)))
