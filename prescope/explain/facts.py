"""What a plan does with one expert, in numbers read off its schedule."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from prescope.formulation import Instance, Lane, Plan, Schedule, TaskKind


class Place(StrEnum):
    """Where an expert runs and how its weights come to be there."""

    RESIDENT = "resident"
    PREFETCHED = "prefetched"
    ON_DEMAND = "on demand"
    CPU = "cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertFacts:
    """One expert of one layer; times since the start of the batch.

    Parameters
    ----------
    layer, expert, tokens
        Which expert, and its tokens.
    place
        Where it runs. Prefetched is a copy that began before the layer's gate.
    resident
        Whether its weights are pinned on the device.
    gate_ns, layer_end_ns
        Of its layer.
    start_ns, end_ns
        Of its computation.
    cpu_ns, gpu_ns
        What it takes on either side; ``cpu_ns`` is ``None`` where the host cannot compute.
    copy_ns
        What bringing it takes.
    copy_start_ns, copy_end_ns
        Of its copy; ``None`` without one. On the host's side the copy was dropped.
    waited_ns
        How long the device stood still for its copy.
    early_ns
        How long its copied weights lay there before they were used; ``None`` where no copy was used.
    lane_slack_ns
        How long before the end of the layer its lane was done.
    """

    layer: int
    expert: int
    tokens: int
    place: Place
    resident: bool
    gate_ns: int
    layer_end_ns: int
    start_ns: int
    end_ns: int
    cpu_ns: int | None
    gpu_ns: int
    copy_ns: int
    copy_start_ns: int | None
    copy_end_ns: int | None
    waited_ns: int
    early_ns: int | None
    lane_slack_ns: int


def layer_experts(instance: Instance, plan: Plan, schedule: Schedule, layer: int) -> tuple[ExpertFacts, ...]:
    """Facts of all experts with tokens of a layer: the device's in its order, then the host's.

    Parameters
    ----------
    instance, plan
        The problem and its plan.
    schedule
        The plan evaluated.
    layer
        Which layer.

    Raises
    ------
    ValueError
        When there is no such layer.
    """
    if not 0 <= layer < instance.layers:
        raise ValueError(f"expected a layer in [0, {instance.layers - 1}], got {layer}")
    tasks = [task for task in schedule.tasks if task.layer == layer]
    gate_ns = next(task.end_ns for task in tasks if task.kind is TaskKind.DENSE)
    copies = {task.expert: task for task in tasks if task.kind is TaskKind.COPY}
    lane_end = dict.fromkeys(Lane, gate_ns)
    facts = []
    order = {expert: place for place, expert in enumerate((*plan.layers[layer].gpu, *plan.layers[layer].cpu))}
    computed = [task for task in tasks if task.kind is TaskKind.COMPUTE and task.expert is not None]
    for task in computed:
        lane_end[task.lane] = max(lane_end[task.lane], task.end_ns)
    before_ns = gate_ns
    layer_end_ns = schedule.layer_end_ns[layer]
    for task in sorted(computed, key=lambda one: order[one.expert or 0]):
        expert = task.expert or 0
        on_device = task.lane is Lane.GPU
        # A copy whose expert runs on the host was brought in vain.
        copy = copies.get(expert)
        tokens = int(instance.demand.counts[layer, expert])
        place = Place.RESIDENT if on_device else Place.CPU
        if copy is not None and on_device:
            place = Place.PREFETCHED if copy.start_ns < gate_ns else Place.ON_DEMAND
        facts.append(
            ExpertFacts(
                layer=layer,
                expert=expert,
                tokens=tokens,
                place=place,
                resident=expert in instance.residents[layer],
                gate_ns=gate_ns,
                layer_end_ns=layer_end_ns,
                start_ns=task.start_ns,
                end_ns=task.end_ns,
                cpu_ns=instance.costs.cpu_ns(layer, tokens) if instance.host_computes else None,
                gpu_ns=instance.costs.gpu_ns(layer, tokens),
                copy_ns=instance.costs.copy_ns(layer),
                copy_start_ns=None if copy is None else copy.start_ns,
                copy_end_ns=None if copy is None else copy.end_ns,
                waited_ns=task.start_ns - before_ns if on_device else 0,
                early_ns=None if copy is None or not on_device else task.start_ns - copy.end_ns,
                lane_slack_ns=layer_end_ns - lane_end[task.lane],
            )
        )
        if on_device:
            before_ns = task.end_ns
    return tuple(facts)
