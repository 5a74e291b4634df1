"""The unrestricted scheduling model for CP-SAT, in integer nanoseconds.

Every activated expert may run on the device or on the host; every copy may take any place on the link and any
slot; device work may take any order. Nothing of the planners' structure (heaviest first, layer order) is
assumed, so a proof by this model is a proof about all plans. Only experts that are alike in every respect are
kept in one order, which loses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prescope.formulation.arrays import instance_arrays
from prescope.formulation.evaluator import evaluate
from prescope.formulation.instance import Instance
from prescope.formulation.plan import LayerPlan, Plan, Transfer
from prescope.formulation.schedule import TaskKind

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

_Key = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CpSatModel:
    """The model and its variables.

    Parameters
    ----------
    instance
        What it models.
    model
        The CP-SAT model; it minimises ``layer_start[L]``.
    layer_start
        Start of each layer and end of the last, ``L + 1`` variables.
    on_device
        Whether each activated ``(layer, expert)`` runs on the device.
    copy_start
        Start of the copy of each missing activated expert; meaningful where ``on_device``.
    compute_start
        Start of the device work of each activated expert; meaningful where ``on_device``.
    """

    instance: Instance
    model: cp_model.CpModel
    layer_start: tuple[cp_model.IntVar, ...]
    on_device: dict[_Key, cp_model.IntVar]
    copy_start: dict[_Key, cp_model.IntVar]
    compute_start: dict[_Key, cp_model.IntVar]

    def add_hint(self, plan: Plan) -> None:
        """Hint the complete schedule of a feasible plan without wasted copies."""
        schedule = evaluate(self.instance, plan)
        ends = (0, *schedule.layer_end_ns)
        for variable, value in zip(self.layer_start, ends, strict=True):
            self.model.add_hint(variable, value)
        started = {(task.kind, task.layer, task.expert): task.start_ns for task in schedule.tasks}
        horizon = schedule.makespan_ns
        device = {(layer, expert) for layer, entry in enumerate(plan.layers) for expert in entry.gpu}
        alike: dict[tuple[int, bool, int, int], list[_Key]] = {}
        for key in self.on_device:
            alike.setdefault(_likeness(self.instance, key), []).append(key)
        for keys in alike.values():
            values = []
            for layer, expert in keys:
                on = (layer, expert) in device
                copy = started.get((TaskKind.COPY, layer, expert), 0) if on else horizon
                compute = started[TaskKind.COMPUTE, layer, expert] if on else horizon
                values.append((not on, copy, compute))
            # The model keeps experts that are alike in this order.
            for key, (off, copy, compute) in zip(keys, sorted(values), strict=True):
                self.model.add_hint(self.on_device[key], not off)
                self.model.add_hint(self.compute_start[key], compute)
                if key in self.copy_start:
                    self.model.add_hint(self.copy_start[key], copy)

    def read_plan(self, solver: cp_model.CpSolver) -> Plan:
        """The plan of the solver's current solution."""
        value = solver.value
        gpu_ns = instance_arrays(self.instance).gpu_ns
        layers = []
        for layer in range(self.instance.layers):
            mine = [key for key in self.on_device if key[0] == layer]
            device = [key for key in mine if value(self.on_device[key])]
            # Work without duration may share its start with other work and must come before it.
            device.sort(key=lambda key: (value(self.compute_start[key]), int(gpu_ns[key])))
            host = tuple(expert for _, expert in mine if (layer, expert) not in device)
            layers.append(LayerPlan(gpu=tuple(expert for _, expert in device), cpu=host))
        copied = [key for key in self.copy_start if value(self.on_device[key])]
        copied.sort(key=lambda key: value(self.copy_start[key]))
        transfers = tuple(Transfer(layer=layer, expert=expert) for layer, expert in copied)
        return Plan(layers=tuple(layers), transfers=transfers)


def _likeness(instance: Instance, key: _Key) -> tuple[int, bool, int, int]:
    """Equal for experts that can change places in any plan."""
    arrays = instance_arrays(instance)
    return key[0], bool(arrays.resident[key]), int(arrays.gpu_ns[key]), int(arrays.cpu_ns[key])


def build_cp_sat_model(instance: Instance, *, horizon_ns: int, lower_bound_ns: int = 0) -> CpSatModel:
    """Build the model.

    Parameters
    ----------
    instance
        The problem.
    horizon_ns
        No later end is considered: the makespan of a feasible plan, so that the model has a solution.
    lower_bound_ns
        A valid lower bound on the makespan, given to the solver.
    """
    from ortools.sat.python import cp_model

    arrays = instance_arrays(instance)
    model = cp_model.CpModel()
    layer_start = tuple(
        model.new_int_var(0, 0 if layer == 0 else horizon_ns, f"start{layer}")
        for layer in range(instance.layers + 1)
    )
    on_device: dict[_Key, cp_model.IntVar] = {}
    copy_start: dict[_Key, cp_model.IntVar] = {}
    compute_start: dict[_Key, cp_model.IntVar] = {}
    link_intervals, slot_intervals = [], []
    for layer in range(instance.layers):
        gate = layer_start[layer] + int(arrays.dense_ns[layer])
        end = layer_start[layer + 1]
        released = layer - instance.lookahead
        release = 0 if released < 0 else layer_start[released] + int(arrays.dense_ns[released])
        device_intervals, host_work, device_work = [], [], []
        alike: dict[tuple[int, bool, int, int], _Key] = {}
        for expert in arrays.active[layer].nonzero()[0].tolist():
            key = (layer, expert)
            resident = bool(arrays.resident[layer, expert])
            device_ns, host_ns = int(arrays.gpu_ns[key]), int(arrays.cpu_ns[key])
            chosen = model.new_bool_var(f"on{key}")
            start = model.new_int_var(0, horizon_ns, f"compute{key}")
            device_intervals.append(
                model.new_optional_fixed_size_interval_var(start, device_ns, chosen, f"device{key}")
            )
            model.add(start >= gate).only_enforce_if(chosen)
            model.add(start + device_ns <= end).only_enforce_if(chosen)
            on_device[key], compute_start[key] = chosen, start
            device_work.append(device_ns * chosen)
            if instance.host_computes:
                host_work.append(host_ns * (1 - chosen))
            else:
                model.add(chosen == 1)
            if not resident:
                if instance.slots == 0:
                    model.add(chosen == 0)
                copy_ns = int(arrays.copy_ns[layer])
                copy = model.new_int_var(0, horizon_ns, f"copy{key}")
                copy_start[key] = copy
                link_intervals.append(
                    model.new_optional_fixed_size_interval_var(copy, copy_ns, chosen, f"link{key}")
                )
                held = model.new_int_var(0, horizon_ns, f"held{key}")
                slot_intervals.append(
                    model.new_optional_interval_var(copy, held, start + device_ns, chosen, f"slot{key}")
                )
                model.add(copy >= release).only_enforce_if(chosen)
                model.add(copy >= instance.link_ready_ns).only_enforce_if(chosen)
                model.add(start >= copy + copy_ns).only_enforce_if(chosen)
            likeness = _likeness(instance, key)
            twin = alike.get(likeness)
            if twin is not None:
                model.add_implication(chosen, on_device[twin])
                if resident:
                    model.add(compute_start[twin] <= start).only_enforce_if(chosen)
                else:
                    model.add(copy_start[twin] <= copy_start[key]).only_enforce_if(chosen)
            alike[likeness] = key
        model.add_no_overlap(device_intervals)
        model.add(sum(device_work) <= end - gate)
        model.add(sum(host_work) <= end - gate)
        model.add(end >= gate)
    model.add_no_overlap(link_intervals)
    if slot_intervals:
        model.add_cumulative(slot_intervals, [1] * len(slot_intervals), instance.slots)
    model.add(layer_start[-1] >= lower_bound_ns)
    model.minimize(layer_start[-1])
    return CpSatModel(
        instance=instance,
        model=model,
        layer_start=layer_start,
        on_device=on_device,
        copy_start=copy_start,
        compute_start=compute_start,
    )
