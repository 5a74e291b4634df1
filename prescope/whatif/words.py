"""What the sweeps say, in sentences: what more of something brings, and where it stops to."""

from __future__ import annotations

from prescope.formulation import Tier, format_bytes, format_ns
from prescope.whatif.outcome import Outcome, Sweep
from prescope.whatif.point import Lever
from prescope.whatif.run import WhatIf

# Bytes per second that the presets assume of a link of 16 lanes.
_PCIE = ((12e9, "PCIe 3"), (24e9, "PCIe 4"), (50e9, "PCIe 5"), (100e9, "PCIe 6"))


def sentences(found: WhatIf) -> tuple[str, ...]:
    """The machine as it is, then what each lever brings and where it stops to."""
    now = found.now
    where = "read from disk" if found.machine.tier is Tier.DISK else "in host memory"
    lines = [
        f"As it is ({found.machine.name}, experts {where}): {now.tokens_per_s:.3g} tokens/s, a step takes "
        f"{format_ns(now.mean_ns)} on average and {format_ns(now.p99_ns)} at the 99th percentile (simulated)."
    ]
    for sweep in found.sweeps:
        said = (_brings(sweep, found.machine.tier), _knee(sweep, found.machine.tier))
        lines.append(" ".join(text for text in said if text))
    return tuple(lines)


def value_text(lever: Lever, value: float | None) -> str:
    """A lever's value with its unit."""
    if lever is Lever.MEMORY:
        return format_bytes(round(value or 0))
    if lever is Lever.LINK:
        return f"{(value or 0) / 1e9:.3g} GB/s"
    if lever is Lever.SPEED:
        return f"{value:.3g}x"
    if lever is Lever.BATCH:
        return f"batch {value:.0f}"
    return "no predictor" if value is None else "an oracle" if value == 1 else f"recall {value:.2g}"


def lever_text(lever: Lever, tier: Tier) -> str:
    """A lever's name on a tier."""
    return {
        Lever.MEMORY: "expert memory",
        Lever.LINK: "disk bandwidth" if tier is Tier.DISK else "link bandwidth",
        Lever.SPEED: "compute speed" if tier is Tier.DISK else "CPU speed",
        Lever.BATCH: "batch",
        Lever.RECALL: "predictor",
    }[lever]


def _brings(sweep: Sweep, tier: Tier) -> str:
    now = sweep.outcomes[sweep.now]
    name = lever_text(sweep.lever, tier)
    others = [one for one in sweep.outcomes if one is not now]
    if not others:
        return f"Only one value of the {name} was tried."
    if sweep.lever is Lever.RECALL:
        best, worst = sweep.outcomes[-1], sweep.outcomes[0]
        parts = [_against(one, now, sweep) for one in (worst, best) if one is not now]
        return f"Predictor, now {value_text(sweep.lever, now.point.recall)}: {'; '.join(parts)}."
    here = float(now.point.value(sweep.lever) or 0)
    # The value next to twice what there is, or the smallest where there is no more.
    larger = [one for one in others if float(one.point.value(sweep.lever) or 0) > here]
    chosen = min(larger or others, key=lambda one: abs(float(one.point.value(sweep.lever) or 0) - 2 * here))
    there = float(chosen.point.value(sweep.lever) or 0)
    if sweep.lever is Lever.MEMORY:
        more = "more" if there > here else "less"
        subject = f"{format_bytes(abs(round(there - here)))} {more} expert memory"
    else:
        subject = f"{there / here:.3g} times the {name}"
    detail = f"{value_text(sweep.lever, here)} -> {value_text(sweep.lever, there)}"
    if sweep.lever is Lever.LINK and tier is Tier.RAM:
        named = next((label for speed, label in _PCIE if abs(there / speed - 1) < 0.1), None)
        detail += f", {named}" if named else ""
    return f"{subject} ({detail}): {_gain(chosen, now)}."


def _against(one: Outcome, now: Outcome, sweep: Sweep) -> str:
    return f"with {value_text(sweep.lever, one.point.recall)} {_gain(one, now)}"


def _gain(one: Outcome, now: Outcome) -> str:
    change = one.tokens_per_s / now.tokens_per_s - 1
    tail = one.p99_ns / now.p99_ns - 1
    return (
        f"{abs(change):.1%} {'more' if change >= 0 else 'fewer'} tokens/s "
        f"({now.tokens_per_s:.3g} -> {one.tokens_per_s:.3g}), 99th percentile of a step {abs(tail):.1%} "
        f"{'longer' if tail > 0 else 'shorter'}"
    )


def _knee(sweep: Sweep, tier: Tier) -> str | None:
    if sweep.knee is None or len(sweep.outcomes) < 2:
        return None
    name = lever_text(sweep.lever, tier)
    little = f"{sweep.knee.little:.0%}"
    if sweep.knee.value is None:
        last = value_text(sweep.lever, sweep.values[-1])
        return f"Up to {last} doubling the {name} still brings {little} or more."
    return (
        f"From {value_text(sweep.lever, sweep.knee.value)} on, doubling the {name} brings less than {little}."
    )
