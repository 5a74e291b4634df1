"""An unrestricted CP-SAT model of tiny instances, independent of every solver and of the evaluator.

It knows no structure: any set of copies in any order, any device order, any delay. Only what is stated in the
definition of the problem is a constraint.
"""

from __future__ import annotations

from dataclasses import dataclass

from ortools.sat.python import cp_model

from prescope.formulation import Instance, LayerPlan, Plan, Transfer


class NotProvedError(Exception):
    """The limit came before the proof."""


@dataclass(frozen=True)
class Proof:
    """A proven optimum and a plan in the order of the solution's starts."""

    makespan_ns: int
    plan: Plan


def prove_optimum(instance: Instance, *, deterministic_limit: float = 20.0, seed: int = 0) -> Proof:
    """Solve to proven optimality, on one worker, reproducibly.

    Raises
    ------
    NotProvedError
        When the deterministic limit comes first.
    """
    model = cp_model.CpModel()
    costs, counts = instance.costs, instance.demand.counts
    horizon = _horizon(instance)

    def time(name: str) -> cp_model.IntVar:
        return model.new_int_var(0, horizon, name)

    copies, holds, gates = [], [], []
    on_gpu: dict[tuple[int, int], cp_model.IntVar] = {}
    gpu_start: dict[tuple[int, int], cp_model.IntVar] = {}
    copy_start: dict[tuple[int, int], cp_model.IntVar] = {}
    end = model.new_constant(0)
    host_free: cp_model.LinearExprT = 0
    for layer in range(instance.layers):
        begin, gate = end, time(f"gate{layer}")
        end = time(f"end{layer}")
        gates.append(gate)
        model.add(gate == begin + costs.dense_ns(layer, instance.demand.batch_tokens))
        model.add(end >= gate)
        on_device, host_ns = [], []
        for expert in counts[layer].nonzero()[0].tolist():
            key, name = (layer, expert), f"{layer}_{expert}"
            tokens = int(counts[key])
            present = model.new_bool_var(f"gpu{name}")
            if not instance.host_computes:
                model.add(present == 1)
            start, length = time(f"start{name}"), costs.gpu_ns(layer, tokens)
            on_device.append(model.new_optional_fixed_size_interval_var(start, length, present, f"run{name}"))
            model.add(start >= gate).only_enforce_if(present)
            model.add(end >= start + length).only_enforce_if(present)
            host_ns.append(costs.cpu_ns(layer, tokens) * (1 - present))
            on_gpu[key], gpu_start[key] = present, start
            if expert in instance.residents[layer]:
                continue
            sent, send_ns = time(f"sent{name}"), costs.copy_ns(layer)
            copies.append(model.new_optional_fixed_size_interval_var(sent, send_ns, present, f"copy{name}"))
            model.add(sent >= instance.link_ready_ns)
            if layer >= instance.lookahead:
                model.add(sent >= gates[layer - instance.lookahead]).only_enforce_if(present)
            model.add(start >= sent + send_ns).only_enforce_if(present)
            held = time(f"held{name}")
            holds.append(model.new_optional_interval_var(sent, held, start + length, present, f"hold{name}"))
            copy_start[key] = sent
        model.add_no_overlap(on_device)
        # The host's experts wait for its predictions; the layer waits for the host only if it has experts.
        host_start = time(f"host{layer}")
        model.add_max_equality(host_start, [gate, host_free])
        host_end = host_start + sum(host_ns)
        for key in on_gpu:
            if key[0] == layer:
                model.add(end >= host_end).only_enforce_if(~on_gpu[key])
        host_free = host_end + (instance.prediction_ns[layer] if instance.prediction_ns else 0)
    model.add_no_overlap(copies)
    model.add_cumulative(holds, [1] * len(holds), instance.slots)
    model.add(end >= host_free)
    model.minimize(end)

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = seed
    solver.parameters.max_deterministic_time = deterministic_limit
    status = solver.solve(model)
    if status != cp_model.OPTIMAL:
        raise NotProvedError(
            f"expected a proof within {deterministic_limit}, got {solver.status_name(status)}"
        )

    def chosen(layer: int) -> LayerPlan:
        active = counts[layer].nonzero()[0].tolist()
        gpu = [e for e in active if solver.value(on_gpu[layer, e])]
        # Zero-length work sorts before what starts with it.
        gpu.sort(
            key=lambda e: (solver.value(gpu_start[layer, e]), costs.gpu_ns(layer, int(counts[layer, e])))
        )
        return LayerPlan(gpu=tuple(gpu), cpu=tuple(e for e in active if e not in gpu))

    sent = sorted(
        (solver.value(start), key) for key, start in copy_start.items() if solver.value(on_gpu[key])
    )
    return Proof(
        makespan_ns=round(solver.objective_value),
        plan=Plan(
            layers=tuple(chosen(layer) for layer in range(instance.layers)),
            transfers=tuple(Transfer(layer=layer, expert=expert) for _, (layer, expert) in sent),
        ),
    )


def _horizon(instance: Instance) -> int:
    """All work one after another."""
    costs, counts = instance.costs, instance.demand.counts
    total = instance.link_ready_ns + sum(instance.prediction_ns)
    for layer in range(instance.layers):
        total += costs.dense_ns(layer, instance.demand.batch_tokens)
        for tokens in counts[layer].tolist():
            total += costs.copy_ns(layer) + costs.gpu_ns(layer, tokens) + costs.cpu_ns(layer, tokens)
    return total
