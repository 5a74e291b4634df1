"""Sentences of a what-if: which value is spoken of, and the numbers in them."""

import pytest

from prescope.formulation import Tier, preset
from prescope.whatif import Lever, Machine, Outcome, Point, WhatIf, WhatIfSettings, sentences
from prescope.whatif.outcome import sweep_of

NOW = Point(memory_bytes=2 << 30, link_bytes_per_s=24 * 10**9, recall=0.8)


def outcome(point: Point, tokens_per_s: float, p99_ns: int) -> Outcome:
    return Outcome(
        point=point,
        steps=10,
        tokens_per_s=tokens_per_s,
        mean_ns=round(1e9 / tokens_per_s),
        median_ns=1,
        p99_ns=p99_ns,
        copied_bytes_per_token=0.0,
    )


def said(lever: Lever, speeds: dict[float | None, float], tier: Tier = Tier.RAM, full_gib: int = 99) -> str:
    """The sentences of one lever; a step's 99th percentile is 100 s over the speed."""
    base = preset("olmoe-1b-7b@a100-pcie4")
    outcomes = tuple(
        outcome(NOW.moved(lever, value), speed, round(1e11 / speed)) for value, speed in speeds.items()
    )
    sweep = sweep_of(lever, outcomes, NOW, full_bytes=full_gib << 30)
    found = WhatIf(
        machine=Machine(name="m", costs=base.costs, tier=tier, host_computes=True),
        settings=WhatIfSettings(now=NOW),
        now=sweep.outcomes[sweep.now],
        sweeps=(sweep,),
        outcomes=outcomes,
        same=False,
    )
    first, second = sentences(found)
    assert first.startswith("As it is (m, experts ") and first.endswith("(simulated).")
    return second


GIB = 1 << 30


@pytest.mark.parametrize(
    ("lever", "speeds", "says"),
    [
        # The value next to twice what there is, not the nearest one, nor the largest.
        (
            Lever.MEMORY,
            {2 * GIB: 50.0, 2.5 * GIB: 60.0, 5 * GIB: 75.0, 8 * GIB: 80.0},
            "3 GiB more expert memory (2 GiB -> 5 GiB): 50.0% more tokens/s (50 -> 75), 99th "
            "percentile of a step 33.3% shorter. Up to 8 GiB doubling the expert memory still "
            "brings 5% or more.",
        ),
        (
            Lever.MEMORY,
            {1 * GIB: 25.0, 2 * GIB: 50.0},
            "1 GiB less expert memory (2 GiB -> 1 GiB): 50.0% fewer tokens/s (50 -> 25), 99th "
            "percentile of a step 100.0% longer. Up to 2 GiB doubling the expert memory still "
            "brings 5% or more.",
        ),
        (
            Lever.LINK,
            {24e9: 50.0, 50e9: 52.0, 100e9: 52.1},
            "2.08 times the link bandwidth (24 GB/s -> 50 GB/s, PCIe 5): 4.0% more tokens/s (50 ->"
            " 52), 99th percentile of a step 3.8% shorter. From 24 GB/s on, doubling the link "
            "bandwidth brings less than 5%.",
        ),
        (
            Lever.RECALL,
            {None: 40.0, 0.8: 50.0, 1.0: 60.0},
            "Predictor, now recall 0.8: with no predictor 20.0% fewer tokens/s (50 -> 40), 99th "
            "percentile of a step 25.0% longer; with an oracle 20.0% more tokens/s (50 -> 60), "
            "99th percentile of a step 16.7% shorter.",
        ),
        (Lever.SPEED, {1.0: 50.0}, "Only one value of the CPU speed was tried."),
    ],
)
def test_what_a_lever_brings(lever: Lever, speeds: dict[float | None, float], says: str) -> None:
    assert said(lever, speeds) == says


def test_memory_for_all_experts_is_the_end() -> None:
    speeds: dict[float | None, float] = {2 * GIB: 50.0, 4 * GIB: 75.0}
    assert "From 4 GiB on, doubling the expert memory brings less than 5%" in said(
        Lever.MEMORY, speeds, full_gib=4
    )
    assert "Up to 4 GiB" in said(Lever.MEMORY, speeds, full_gib=5)


def test_disks_have_no_lanes() -> None:
    text = said(Lever.LINK, {24e9: 50.0, 50e9: 60.0}, tier=Tier.DISK)
    assert "2.08 times the disk bandwidth (24 GB/s -> 50 GB/s):" in text
