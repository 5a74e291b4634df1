"""Writing an instance's numbers into a CP-SAT model in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prescope.formulation.workload import Workload

if TYPE_CHECKING:
    from prescope.formulation.models.cp_sat_layout import CpSatLayout, ExpertTerms, LayerTerms


def write_numbers(layout: CpSatLayout, work: Workload, *, horizon_ns: int, lower_bound_ns: int) -> None:
    """Write every domain, duration and coefficient that depends on the instance.

    Places that the instance does not use are switched off; places whose experts are not alike get order
    constraints that always hold.
    """
    proto: Any = layout.model.proto
    layout.horizon_ns = horizon_ns
    layers = len(layout.layers)
    for index in layout.layer_start:
        _domain(proto, index, 0, horizon_ns)
    _domain(proto, layout.layer_start[0], 0, 0)
    _domain(proto, layout.layer_start[-1], min(lower_bound_ns, horizon_ns), horizon_ns)
    host_free: list[tuple[int, int]] = []
    host_constant = 0
    for layer, terms in enumerate(layout.layers):
        dense = int(work.dense_ns[layer])
        released = layer - layout.shape.lookahead
        release_ns = int(work.dense_ns[released]) if released >= 0 else 0
        device, host = _experts(proto, work, layer, terms, horizon_ns, release_ns)
        _coefficients(proto, terms.device, [(index, -time) for index, time in device])
        _lower(proto, terms.device, dense)
        everything = sum(time for _, time in host)
        _coefficients(proto, terms.host, host)
        if terms.host_start is None:
            _lower(proto, terms.host, dense + everything)
            continue
        _domain(proto, terms.host_start, 0, horizon_ns)
        _lower(proto, terms.host, everything)
        assert terms.host_gate is not None
        _lower(proto, terms.host_gate, dense)
        if terms.host_after is not None:
            _coefficients(proto, terms.host_after, host_free)
            _lower(proto, terms.host_after, host_constant)
        host_free, host_constant = host, everything + int(work.prediction_ns[layer])
        if layer == layers - 1 and layout.host_last is not None:
            _coefficients(proto, layout.host_last, host)
            _lower(proto, layout.host_last, host_constant)
    if layout.cumulative is not None:
        proto.constraints[layout.cumulative].cumulative.capacity.offset = int(work.slots)


def _experts(
    proto: Any, work: Workload, layer: int, terms: LayerTerms, horizon_ns: int, release_ns: int
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Write the experts of a layer; returns device and host time by variable."""
    device, host = [], []
    copy_ns = int(work.copy_ns[layer])
    for places, offsets, cpu_ns, gpu_ns, resident in (
        (terms.missing, work.missing_offsets, work.missing_cpu_ns, work.missing_gpu_ns, False),
        (terms.residents, work.resident_offsets, work.resident_cpu_ns, work.resident_gpu_ns, True),
    ):
        low, count = int(offsets[layer]), int(offsets[layer + 1] - offsets[layer])
        for rank, place in enumerate(places):
            used = rank < count
            cpu = int(cpu_ns[low + rank]) if used else 0
            gpu = int(gpu_ns[low + rank]) if used else 0
            ready = min(int(work.link_ready_ns), horizon_ns)
            possible = used and (resident or (work.slots > 0 and ready + copy_ns <= horizon_ns))
            _domain(proto, place.on, int(used and not work.host_computes), int(possible))
            _domain(proto, place.compute, 0, horizon_ns)
            _write_place(proto, terms, place, gpu, int(work.dense_ns[layer]))
            if place.copy is not None and place.held is not None:
                _domain(proto, place.copy, ready, horizon_ns)
                _domain(proto, place.held, 0, horizon_ns)
                _, link, slot = place.intervals
                assert link is not None and slot is not None and place.landed is not None
                interval = proto.constraints[link].interval
                interval.size.offset = interval.end.offset = copy_ns
                proto.constraints[slot].interval.end.offset = gpu
                _lower(proto, place.landed, copy_ns)
                if place.released is not None:
                    _lower(proto, place.released, release_ns)
            if place.busy is not None:
                _lower(proto, place.busy, int(used))
            if place.twin_on is not None and place.twin_order is not None:
                here = low + rank
                alike = used and cpu == cpu_ns[here - 1] and gpu == gpu_ns[here - 1]
                _lower(proto, place.twin_on, 0 if alike else -1)
                _lower(proto, place.twin_order, 0 if alike else -horizon_ns)
            device.append((place.on, gpu))
            host.append((place.on, cpu))
    return device, host


def _write_place(proto: Any, terms: LayerTerms, place: ExpertTerms, gpu_ns: int, dense_ns: int) -> None:
    place.gpu_ns = gpu_ns
    interval = proto.constraints[place.intervals[0]].interval
    interval.size.offset = interval.end.offset = gpu_ns
    _lower(proto, place.starts, dense_ns)
    _lower(proto, place.ends, gpu_ns)


def complete_hint(layout: CpSatLayout, work: Workload, values: dict[int, int]) -> None:
    """Hint a solution: the given variables, the host's clock that follows, and unused places."""
    free = 0
    for layer, terms in enumerate(layout.layers):
        host = 0
        for place in (*terms.missing, *terms.residents):
            values.setdefault(place.on, 0)
            values.setdefault(place.compute, layout.horizon_ns)
            if place.copy is not None and place.held is not None:
                values.setdefault(place.copy, layout.horizon_ns)
                values.setdefault(place.held, 0)
        if terms.host_start is None or terms.host_busy is None:
            continue
        begin = max(values[layout.layer_start[layer]] + int(work.dense_ns[layer]), free)
        busy = False
        for places, offsets, cpu_ns in (
            (terms.missing, work.missing_offsets, work.missing_cpu_ns),
            (terms.residents, work.resident_offsets, work.resident_cpu_ns),
        ):
            for rank, place in zip(range(offsets[layer], offsets[layer + 1]), places, strict=False):
                if not values[place.on]:
                    host += int(cpu_ns[rank])
                    busy = True
        values[terms.host_start], values[terms.host_busy] = begin, int(busy)
        free = begin + host + int(work.prediction_ns[layer])
    hint: Any = layout.model.proto.solution_hint
    ordered = sorted(values)
    hint.vars.extend(ordered)
    hint.values.extend(values[index] for index in ordered)


def _domain(proto: Any, variable: int, low: int, high: int) -> None:
    domain = proto.variables[variable].domain
    domain[0], domain[1] = low, max(low, high)


def _lower(proto: Any, constraint: int, low: int) -> None:
    proto.constraints[constraint].linear.domain[0] = low


def _coefficients(proto: Any, constraint: int, values: list[tuple[int, int]]) -> None:
    linear = proto.constraints[constraint].linear
    place = {variable: index for index, variable in enumerate(linear.vars)}
    for variable, value in values:
        linear.coeffs[place[variable]] = value
