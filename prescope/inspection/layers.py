"""What happens in each layer of a step, in numbers."""

from __future__ import annotations

from dataclasses import dataclass

from prescope.formulation import Lane, TaskKind
from prescope.inspection.spent import waits_ns
from prescope.inspection.view import StepView, named_schedule
from prescope.report.origin import Origin, mark


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRow:
    """One layer.

    Parameters
    ----------
    layer
        Its number.
    start_ns, gate_ns, end_ns
        When it begins (the layer before has ended), when its gate speaks, and when it ends.
    dense_ns, gpu_ns, cpu_ns
        Dense work, and expert work on the device and on the host.
    wait_copy_ns, wait_host_ns
        How long the device stood idle for copies, and for the host.
    copied_bytes
        Of copies of its experts, whenever they ran; ``None`` where costs are not known.
    counts
        How many experts were computed with weights of each origin, and copies that nobody used.
    tokens
        Tokens of those experts; empty where demand is not known.
    """

    layer: int
    start_ns: int
    gate_ns: int
    end_ns: int
    dense_ns: int
    gpu_ns: int
    cpu_ns: int
    wait_copy_ns: int
    wait_host_ns: int
    copied_bytes: int | None
    counts: dict[Origin, int]
    tokens: dict[Origin, int]


def layer_rows(step: StepView, schedule: str | None = None) -> tuple[LayerRow, ...]:
    """Sum up every layer of one schedule of a step, by default of what happened.

    Raises
    ------
    ValueError
        When there is no schedule of that name.
    """
    drawn = named_schedule(step, schedule)
    layers = range(len(drawn.layer_end_ns))
    counts: list[dict[Origin, int]] = [{} for _ in layers]
    tokens: list[dict[Origin, int]] = [{} for _ in layers]
    busy = [dict.fromkeys(("dense", "gpu", "cpu"), 0) for _ in layers]
    gates = [0 for _ in layers]
    copies = [0 for _ in layers]
    demand = None if step.instance is None else step.instance.demand.counts
    for entry in mark(drawn):
        task = entry.task
        if task.kind is TaskKind.DENSE:
            gates[task.layer] = task.end_ns
            busy[task.layer]["dense"] += task.duration_ns
        elif task.kind is TaskKind.COMPUTE:
            busy[task.layer]["gpu" if task.lane is Lane.GPU else "cpu"] += task.duration_ns
            if demand is not None and task.expert is not None:
                row = tokens[task.layer]
                row[entry.origin] = row.get(entry.origin, 0) + int(demand[task.layer, task.expert])
        elif task.kind is TaskKind.COPY:
            copies[task.layer] += 1
        if task.kind is TaskKind.COMPUTE or entry.origin is Origin.UNUSED:
            counts[task.layer][entry.origin] = counts[task.layer].get(entry.origin, 0) + 1
    waits = waits_ns(drawn)
    sizes = None if step.instance is None else step.instance.costs.expert_bytes
    starts = (0, *drawn.layer_end_ns)
    return tuple(
        LayerRow(
            layer=layer,
            start_ns=starts[layer],
            gate_ns=gates[layer],
            end_ns=drawn.layer_end_ns[layer],
            dense_ns=busy[layer]["dense"],
            gpu_ns=busy[layer]["gpu"],
            cpu_ns=busy[layer]["cpu"],
            wait_copy_ns=waits[layer][0],
            wait_host_ns=waits[layer][1],
            copied_bytes=None if sizes is None else copies[layer] * sizes[layer],
            counts=counts[layer],
            tokens=tokens[layer],
        )
        for layer in layers
    )
