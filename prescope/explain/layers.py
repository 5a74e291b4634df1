"""What the layers of a plan cost and which of them cost most beyond their computation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from prescope.explain.facts import ExpertFacts, Place, layer_experts
from prescope.formulation import Instance, Plan, Schedule


class Limit(StrEnum):
    """What a layer's end waits for."""

    DEVICE = "the device, computing"
    COPIES = "the device, waiting for copies"
    HOST = "the host"
    NOTHING = "nothing but its dense part"


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFacts:
    """One layer; times in nanoseconds.

    Parameters
    ----------
    layer
        Its number.
    start_ns, gate_ns, end_ns
        Start, end of its dense part, end; since the start of the batch.
    device_ns, host_ns
        From the gate to the end of either lane's experts.
    waited_ns
        How long the device stood still for copies.
    ideal_ns
        What the layer would take with all weights on the device: dense part and experts.
    limit
        What its end waits for: of the two lanes the one that ends last.
    counts
        How many experts run in which place.
    """

    layer: int
    start_ns: int
    gate_ns: int
    end_ns: int
    device_ns: int
    host_ns: int
    waited_ns: int
    ideal_ns: int
    limit: Limit
    counts: tuple[tuple[Place, int], ...]

    @property
    def duration_ns(self) -> int:
        """From its start to its end."""
        return self.end_ns - self.start_ns

    @property
    def lost_ns(self) -> int:
        """What it takes beyond its ideal; negative where the host's help makes it shorter than that."""
        return self.duration_ns - self.ideal_ns


def layer_facts(instance: Instance, plan: Plan, schedule: Schedule, layer: int) -> LayerFacts:
    """Facts of one layer; see `prescope.explain.layer_experts` for the arguments."""
    experts = layer_experts(instance, plan, schedule, layer)
    start_ns = schedule.layer_end_ns[layer - 1] if layer else 0
    dense_ns = instance.costs.dense_ns(layer, instance.demand.batch_tokens)
    gate_ns = start_ns + dense_ns
    device = [one for one in experts if one.place is not Place.CPU]
    host = [one for one in experts if one.place is Place.CPU]
    device_ns = max((one.end_ns for one in device), default=gate_ns) - gate_ns
    host_ns = max((one.end_ns for one in host), default=gate_ns) - gate_ns
    waited_ns = sum(one.waited_ns for one in device)
    return LayerFacts(
        layer=layer,
        start_ns=start_ns,
        gate_ns=gate_ns,
        end_ns=schedule.layer_end_ns[layer],
        device_ns=device_ns,
        host_ns=host_ns,
        waited_ns=waited_ns,
        ideal_ns=dense_ns + sum(one.gpu_ns for one in experts),
        limit=_limit(device_ns, host_ns, waited_ns),
        counts=_counts(experts),
    )


def costliest_layers(
    instance: Instance, plan: Plan, schedule: Schedule, count: int = 5
) -> tuple[LayerFacts, ...]:
    """The layers that lose most time beyond computing everything on the device, most first."""
    facts = [layer_facts(instance, plan, schedule, layer) for layer in range(instance.layers)]
    return tuple(sorted(facts, key=lambda one: (-one.lost_ns, one.layer))[:count])


def _limit(device_ns: int, host_ns: int, waited_ns: int) -> Limit:
    if max(device_ns, host_ns) == 0:
        return Limit.NOTHING
    if host_ns > device_ns:
        return Limit.HOST
    return Limit.COPIES if waited_ns else Limit.DEVICE


def _counts(experts: tuple[ExpertFacts, ...]) -> tuple[tuple[Place, int], ...]:
    found = {place: sum(one.place is place for one in experts) for place in Place}
    return tuple((place, number) for place, number in found.items() if number)
