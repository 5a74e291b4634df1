"""Explanations in sentences; every number in them is one of the explanation's own."""

from __future__ import annotations

from prescope.explain.alternatives import Alternative
from prescope.explain.break_even import BreakEven, Lever
from prescope.explain.explanation import ExpertExplanation, LayerExplanation, PlanExplanation
from prescope.explain.facts import ExpertFacts, Place
from prescope.explain.layers import LayerFacts, Limit
from prescope.explain.prices import Prices
from prescope.formulation import format_ns

_DONE = {
    Place.RESIDENT: "resident on the device",
    Place.PREFETCHED: "prefetched to the device",
    Place.ON_DEMAND: "copied to the device on demand",
    Place.CPU: "left to the CPU",
}
_DOING = {
    Place.RESIDENT: "Running it on the device",
    Place.PREFETCHED: "Copying it as early as possible",
    Place.ON_DEMAND: "Copying it on demand",
    Place.CPU: "Leaving it to the CPU",
}


def expert_sentences(found: ExpertExplanation) -> tuple[str, ...]:
    """An expert's explanation, one sentence or two per entry."""
    return (
        *_what(found.facts),
        _why(found.facts),
        *(_alternative(found, one) for one in found.alternatives if not one.chosen),
        *_slack_in_plan(found),
        _residency(found),
        *_prices(found.prices),
        *(_break_even(one) for one in found.break_evens),
    )


def layer_sentences(found: LayerExplanation) -> tuple[str, ...]:
    """A layer's explanation."""
    return (*_layer(found.facts), *_prices(found.prices))


def plan_sentences(found: PlanExplanation) -> tuple[str, ...]:
    """Where a plan loses time."""
    lost_ns = found.makespan_ns - found.ideal_ns
    if lost_ns <= 0:
        start = (
            f"The batch takes {format_ns(found.makespan_ns)}, no more than with all weights on the device "
            f"({format_ns(found.ideal_ns)})."
        )
    else:
        share = lost_ns / found.makespan_ns
        start = (
            f"The batch takes {format_ns(found.makespan_ns)}; with all weights on the device it would take "
            f"{format_ns(found.ideal_ns)}. {format_ns(lost_ns)} of it ({share:.1%}) are due to weights that "
            "are not there."
        )
    losing = [one for one in found.layers if one.lost_ns > 0]
    if not losing:
        return (start,)
    first = losing[0]
    return (
        start,
        f"Layer {first.layer} loses most: {format_ns(first.lost_ns)} of its {format_ns(first.duration_ns)}; "
        f"its end waits for {first.limit.value}.",
    )


def _what(facts: ExpertFacts) -> tuple[str, ...]:
    tokens = "1 token" if facts.tokens == 1 else f"{facts.tokens} tokens"
    lines = [
        f"Layer {facts.layer}, expert {facts.expert} ({tokens}) is {_DONE[facts.place]}. It runs from "
        f"{format_ns(facts.start_ns)} to {format_ns(facts.end_ns)}; its layer's gate opens at "
        f"{format_ns(facts.gate_ns)} and the layer ends at {format_ns(facts.layer_end_ns)}."
    ]
    if facts.copy_start_ns is None or facts.copy_end_ns is None:
        return tuple(lines)
    distance_ns = facts.gate_ns - facts.copy_start_ns
    when = f"{format_ns(distance_ns)} before the gate" if distance_ns > 0 else "at the gate or later"
    copy = (
        f"Its copy starts at {format_ns(facts.copy_start_ns)}, {when}, and lands at "
        f"{format_ns(facts.copy_end_ns)}"
    )
    if facts.early_ns is None:
        lines.append(f"{copy}; nobody uses it.")
    elif facts.waited_ns > 0:
        lines.append(f"{copy}; the device stands still {format_ns(facts.waited_ns)} for it.")
    else:
        lines.append(f"{copy}, {format_ns(facts.early_ns)} before it is used.")
    return tuple(lines)


def _why(facts: ExpertFacts) -> str:
    device = f"{format_ns(facts.gpu_ns)} on the device"
    if not facts.resident:
        device += f" behind a copy of {format_ns(facts.copy_ns)}"
    host = "the host cannot compute" if facts.cpu_ns is None else f"{format_ns(facts.cpu_ns)} on the CPU"
    lane = "CPU" if facts.place is Place.CPU else "device"
    if facts.lane_slack_ns == 0:
        end = f"The layer ends with the {lane}'s work, so every nanosecond of it counts."
    else:
        end = f"The {lane} is done {format_ns(facts.lane_slack_ns)} before the layer ends."
    return f"It takes {device}; {host}. {end}"


def _alternative(found: ExpertExplanation, one: Alternative) -> str:
    doing = _DOING[one.place]
    if one.fixed_ns is None and one.replanned_ns is None:
        return f"{doing} is not possible."
    parts = []
    if one.fixed_ns is not None:
        parts.append(f"with all else as it is {_change(one.fixed_ns, found.makespan_ns)}")
    if one.replanned_ns is not None:
        anew = _change(one.replanned_ns, found.makespan_ns)
        if one.replanned_ns == found.makespan_ns != one.fixed_ns:
            anew += ", as others make up for it"
        parts.append(f"with all else planned anew {anew}")
    text = f"{doing}: {', '.join(parts)}."
    if one.bound_ns is not None and one.replanned_ns is not None:
        if one.bound_ns >= one.replanned_ns:
            text += " That is proved: no plan on this side is shorter."
        elif one.bound_ns > found.makespan_ns:
            text += f" Proved: at least {_change(one.bound_ns, found.makespan_ns)}."
    return text


def _slack_in_plan(found: ExpertExplanation) -> tuple[str, ...]:
    """Said where planning anew beats the plan with all choices as they are."""
    chosen = next(one for one in found.alternatives if one.chosen)
    if chosen.replanned_ns is None or chosen.replanned_ns >= found.makespan_ns:
        return ()
    return (
        "The plan itself can be better with this expert where it is: planned anew, with all tokens known, "
        f"{_change(chosen.replanned_ns, found.makespan_ns)}.",
    )


def _residency(found: ExpertExplanation) -> str:
    place = found.residency
    if place.without_ns is None:
        return "Without its place among the residents there is no plan."
    worth_ns = place.without_ns - place.with_ns
    if place.resident:
        if worth_ns <= 0:
            return (
                "Its place among the residents saves nothing in this batch: without it the batch is as fast."
            )
        return f"Its place among the residents saves {format_ns(worth_ns)} in this batch."
    if worth_ns <= 0:
        return "A place among the residents would save nothing in this batch."
    return f"A place among the residents would save {format_ns(worth_ns)} in this batch."


def _prices(found: Prices) -> tuple[str, ...]:
    lead = "ahead" if found.lead_ns >= 0 else "behind"
    lines = [
        f"On entering layer {found.layer} the link is {format_ns(abs(found.lead_ns))} {lead}; one more ms of "
        f"link time here is worth {found.link_time:.2f} ms of the batch."
    ]
    slot = f"one more slot saves {format_ns(max(0, found.slot_ns))}"
    if found.lost_slot_ns is not None:
        slot += f", one less costs {format_ns(max(0, found.lost_slot_ns))}"
    lines.append(
        f"Planned anew for the whole batch, a link a tenth faster saves "
        f"{format_ns(max(0, found.faster_link_ns))}, {slot}."
    )
    return tuple(lines)


def _break_even(one: BreakEven) -> str:
    now = _value(one.lever, one.now)
    if one.device_from is None or one.host_from is None:
        subject = {
            Lever.TOKENS: "number of its tokens",
            Lever.LINK: "speed of the link",
            Lever.HOST: "speed of the CPU",
        }[one.lever]
        return (
            f"No {subject} tried between {_value(one.lever, one.low)} and {_value(one.lever, one.high)} "
            f"changes the better side ({now} now)."
        )
    # Now is on the nearer side of the change.
    begins = abs(one.device_from - one.now) > abs(one.host_from - one.now)
    there = _value(one.lever, one.device_from if begins else one.host_from)
    if one.lever is Lever.TOKENS:
        return f"The CPU {'begins to lose' if begins else 'no longer loses'} at {there} ({now} now)."
    if one.lever is Lever.LINK:
        return f"A copy {'begins to pay' if begins else 'no longer pays'} with a link of {there} ({now} now)."
    return f"The CPU {'begins to lose' if begins else 'no longer loses'} with {there}."


def _layer(facts: LayerFacts) -> tuple[str, ...]:
    counts = ", ".join(f"{number} {_DONE[place]}" for place, number in facts.counts) or "none"
    lines = [
        f"Layer {facts.layer} runs from {format_ns(facts.start_ns)} to {format_ns(facts.end_ns)} "
        f"({format_ns(facts.duration_ns)}, its dense part until {format_ns(facts.gate_ns)}). Its experts: "
        f"{counts}."
    ]
    if facts.limit is Limit.NOTHING:
        return tuple(lines)
    lines.append(
        f"Its end waits for {facts.limit.value}: from the gate the device needs {format_ns(facts.device_ns)} "
        f"({format_ns(facts.waited_ns)} of it standing still), the host {format_ns(facts.host_ns)}."
    )
    if facts.lost_ns > 0:
        lines.append(
            f"With all weights on the device it would take {format_ns(facts.ideal_ns)}: "
            f"{format_ns(facts.lost_ns)} are lost."
        )
    else:
        lines.append("It is no longer than with all weights on the device.")
    return tuple(lines)


def _value(lever: Lever, value: float) -> str:
    if lever is Lever.TOKENS:
        return "1 token" if value == 1 else f"{value:.0f} tokens"
    if lever is Lever.LINK:
        return f"{value / 1e9:.3g} GB/s"
    return f"{value:.3g} times its speed"


def _change(time_ns: int, makespan_ns: int) -> str:
    difference = time_ns - makespan_ns
    if difference == 0:
        return "the batch takes as long"
    share = f"{abs(difference) / makespan_ns:.2%}" if makespan_ns else "of nothing"
    return f"{format_ns(abs(difference))} ({share}) {'slower' if difference > 0 else 'faster'}"
