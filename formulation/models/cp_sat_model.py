"""The unrestricted scheduling model for CP-SAT, in integer nanoseconds.

Every activated expert may run on the device or on the host; every copy may take any place on the link and any
slot; device work may take any order. Nothing of the planners' structure (heaviest first, layer order) is
assumed, so a proof by this model is a proof about all plans. At most, experts that are alike in every respect
are kept in one order, which loses nothing.

The model is laid out by rank in the `Workload` (missing experts heaviest first, residents lightest first), so
that a model of the same shape is changed into another instance's by writing its numbers: `write` does that,
and building is making a model without numbers and writing them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prescope.formulation.evaluator import evaluate
from prescope.formulation.instance import Instance
from prescope.formulation.models.cp_sat_layout import CpSatLayout, ExpertTerms, lay_out
from prescope.formulation.models.cp_sat_shape import CpSatShape, shape_of
from prescope.formulation.plan import LayerPlan, Plan, Transfer
from prescope.formulation.schedule import TaskKind
from prescope.formulation.workload import Workload, workload

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


@dataclass(slots=True, kw_only=True, eq=False)
class CpSatModel:
    """The model of one instance; it minimises the end of the last layer.

    Parameters
    ----------
    layout
        Variables and constraints.
    instance, work
        Whose numbers are written in.
    """

    layout: CpSatLayout
    instance: Instance
    work: Workload

    @property
    def model(self) -> cp_model.CpModel:
        """The CP-SAT model."""
        return self.layout.model

    def write(self, instance: Instance, *, horizon_ns: int, lower_bound_ns: int = 0) -> None:
        """Change the model into that of another instance, which must fit its shape; drops the hint.

        Parameters
        ----------
        instance, horizon_ns, lower_bound_ns
            As for `build_cp_sat_model`.
        """
        self.instance, self.work = instance, workload(instance)
        proto: Any = self.model.proto
        proto.clear_solution_hint()
        self.layout.write(self.work, horizon_ns=horizon_ns, lower_bound_ns=lower_bound_ns)

    def _experts(self) -> list[tuple[int, int, bool, int, int, ExpertTerms]]:
        """Layer, expert, resident, host and device time, and terms of every activated expert."""
        work, found = self.work, []
        for layer, terms in enumerate(self.layout.layers):
            low, high = int(work.missing_offsets[layer]), int(work.missing_offsets[layer + 1])
            for place, rank in enumerate(range(low, high)):
                cpu, gpu = int(work.missing_cpu_ns[rank]), int(work.missing_gpu_ns[rank])
                found.append((layer, int(work.missing[rank]), False, cpu, gpu, terms.missing[place]))
            low, high = int(work.resident_offsets[layer]), int(work.resident_offsets[layer + 1])
            for place, rank in enumerate(range(low, high)):
                cpu, gpu = int(work.resident_cpu_ns[rank]), int(work.resident_gpu_ns[rank])
                found.append((layer, int(work.resident[rank]), True, cpu, gpu, terms.residents[place]))
        return found

    def add_hint(self, plan: Plan) -> None:
        """Hint the complete schedule of a feasible plan without wasted copies."""
        schedule = evaluate(self.instance, plan)
        started = {(task.kind, task.layer, task.expert): task.start_ns for task in schedule.tasks}
        ends = (0, *schedule.layer_end_ns)
        values: dict[int, int] = dict(zip(self.layout.layer_start, ends, strict=True))
        horizon = self.layout.horizon_ns
        device = {(layer, expert) for layer, entry in enumerate(plan.layers) for expert in entry.gpu}
        alike: dict[tuple[int, bool, int, int], list[tuple[tuple[bool, int, int], ExpertTerms]]] = {}
        for layer, expert, resident, cpu, gpu, terms in self._experts():
            on = (layer, expert) in device
            copy = started.get((TaskKind.COPY, layer, expert), 0) if on else horizon
            compute = started[TaskKind.COMPUTE, layer, expert] if on else horizon
            alike.setdefault((layer, resident, cpu, gpu), []).append(((not on, copy, compute), terms))
        for group in alike.values():
            # The model keeps experts that are alike in this order.
            ordered = sorted(entry[0] for entry in group)
            for (off, copy, compute), (_, terms) in zip(ordered, group, strict=True):
                values[terms.on] = int(not off)
                values[terms.compute] = compute
                if terms.copy is not None and terms.held is not None:
                    values[terms.copy] = copy
                    values[terms.held] = max(0, compute + terms.gpu_ns - copy)
        self.layout.hint(self.work, values)

    def read_plan(self, solver: cp_model.CpSolver) -> Plan:
        """The plan of the solver's current solution."""
        value: Any = solver.response_proto.solution
        gpu: list[list[tuple[int, int, int]]] = [[] for _ in self.layout.layers]
        cpu: list[list[int]] = [[] for _ in self.layout.layers]
        copied = []
        for layer, expert, _, _, gpu_ns, terms in self._experts():
            if not value[terms.on]:
                cpu[layer].append(expert)
                continue
            # Work without duration may share its start with other work and must come before it.
            gpu[layer].append((value[terms.compute], gpu_ns, expert))
            if terms.copy is not None:
                copied.append((value[terms.copy], layer, expert))
        return Plan(
            layers=tuple(
                LayerPlan(gpu=tuple(expert for _, _, expert in sorted(device)), cpu=tuple(host))
                for device, host in zip(gpu, cpu, strict=True)
            ),
            transfers=tuple(Transfer(layer=layer, expert=expert) for _, layer, expert in sorted(copied)),
        )


def build_cp_sat_model(
    instance: Instance,
    *,
    horizon_ns: int,
    lower_bound_ns: int = 0,
    symmetry: bool = True,
    shape: CpSatShape | None = None,
) -> CpSatModel:
    """Build the model.

    Parameters
    ----------
    instance
        The problem.
    horizon_ns
        No later end is considered: the makespan of a feasible plan, so that the model has a solution.
    lower_bound_ns
        A valid lower bound on the makespan, given to the solver.
    symmetry
        Keep experts that are alike in one order.
    shape
        Room for more than the instance needs, for models that will be changed; ``symmetry`` is then the
        shape's.
    """
    work = workload(instance)
    layout = lay_out(shape or shape_of(work, symmetry=symmetry))
    model = CpSatModel(layout=layout, instance=instance, work=work)
    model.write(instance, horizon_ns=horizon_ns, lower_bound_ns=lower_bound_ns)
    return model
