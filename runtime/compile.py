"""From a plan to the program that carries it out."""

from __future__ import annotations

from prescope.formulation import Instance, Plan, TaskKind, evaluate
from prescope.formulation.packed_plan import release_gate
from prescope.runtime.builder import ProgramBuilder
from prescope.runtime.program import Program
from prescope.runtime.requests import CopyRequest


def builder_for(instance: Instance) -> ProgramBuilder:
    """A program builder with the costs, residents and slots of an instance, for its plans."""
    return ProgramBuilder(
        costs=instance.costs,
        experts=instance.experts,
        slots=instance.slots,
        residents=instance.residents,
        host_computes=instance.host_computes,
        allow_late=True,
    )


def compile_plan(instance: Instance, plan: Plan) -> Program:
    """The program of a plan, correct after any earlier step including itself.

    Slots are those that the exact evaluator gives; a copy is issued at its release gate, or at the later gate
    of the layer whose work frees its slot.

    Raises
    ------
    InfeasiblePlanError
        When the plan does not fit the instance.
    PlanError
        When its order cannot be carried out.
    """
    copies = copies_by_gate(instance, plan)
    builder = builder_for(instance)
    build_step(builder, instance, plan, copies)
    return builder.program()


def build_step(
    builder: ProgramBuilder, instance: Instance, plan: Plan, copies: dict[int, list[CopyRequest]]
) -> None:
    """Add one step of a plan to a builder."""
    counts = instance.demand.counts
    builder.begin_step(copies.get(-1, ()), batch_tokens=instance.demand.batch_tokens)
    for layer, layer_plan in enumerate(plan.layers):
        builder.dense(layer)
        builder.wave(
            layer,
            gpu=[(expert, int(counts[layer, expert])) for expert in layer_plan.gpu],
            cpu=[(expert, int(counts[layer, expert])) for expert in layer_plan.cpu],
            copies=copies.get(layer, ()),
            prediction_ns=instance.prediction_ns[layer] if instance.prediction_ns else 0,
        )
    builder.end_step()


def copies_by_gate(instance: Instance, plan: Plan) -> dict[int, list[CopyRequest]]:
    """Copies of a plan with their slots, by the gate at which they are issued, -1 being the step's start.

    Raises
    ------
    InfeasiblePlanError
        When the plan does not fit the instance.
    """
    slots = {
        (task.layer, task.expert): task.slot
        for task in evaluate(instance, plan).tasks
        if task.kind is TaskKind.COPY
    }
    freed_at: dict[int, int] = {}
    by_gate: dict[int, list[CopyRequest]] = {}
    gate = -1
    for transfer in plan.transfers:
        slot = slots[transfer.layer, transfer.expert]
        if slot is None:
            raise RuntimeError("expected the evaluator to give every copy a slot, got none")
        # The link keeps the plan's order, so a copy is never issued before the one ahead of it.
        gate = max(gate, release_gate(instance, transfer), freed_at.get(slot, -1))
        by_gate.setdefault(gate, []).append(CopyRequest(transfer.layer, transfer.expert, slot))
        freed_at[slot] = transfer.layer
    return by_gate
