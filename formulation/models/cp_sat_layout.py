"""Variables and constraints of the unrestricted CP-SAT model, and the numbers in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from prescope.formulation.models.cp_sat_shape import CpSatShape
from prescope.formulation.workload import Workload

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

_FREE = -(1 << 62)


@dataclass(slots=True, kw_only=True, eq=False)
class ExpertTerms:
    """One place for an activated expert: numbers of variables and constraints.

    Parameters
    ----------
    on, compute, copy, held
        Variables: whether it runs on the device, when its device work and its copy start, how long it holds a
        slot. ``copy`` and ``held`` are for missing experts only.
    gpu_ns
        Device time written last.
    intervals
        Constraints of the device, link and slot intervals; ``None`` for residents' last two.
    starts, ends, released, landed, busy
        Constraints: after the gate, before the layer's end, copy after its release, work after its copy, host
        busy.
    twin_on, twin_order
        Constraints between this place and the one before it, where their experts are alike.
    """

    on: int
    compute: int
    copy: int | None = None
    held: int | None = None
    gpu_ns: int = 0
    intervals: tuple[int, int | None, int | None] = (0, None, None)
    starts: int = 0
    ends: int = 0
    released: int | None = None
    landed: int | None = None
    busy: int | None = None
    twin_on: int | None = None
    twin_order: int | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class LayerTerms:
    """One layer: its experts' places, and its constraints on the sums of device and host work."""

    missing: list[ExpertTerms] = field(default_factory=list)
    residents: list[ExpertTerms] = field(default_factory=list)
    device: int = 0
    host: int = 0
    host_start: int | None = None
    host_busy: int | None = None
    host_gate: int | None = None
    host_after: int | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class CpSatLayout:
    """A model without an instance: `write` puts the numbers in.

    Parameters
    ----------
    shape
        What it has room for.
    model
        The CP-SAT model.
    layer_start
        Variables: start of each layer and end of the last.
    layers
        Terms of each layer.
    cumulative
        Constraint of the slots.
    host_last
        Constraint: the batch ends after the host's last prediction.
    horizon_ns
        Written last.
    """

    shape: CpSatShape
    model: cp_model.CpModel
    layer_start: list[int]
    layers: list[LayerTerms]
    cumulative: int | None
    host_last: int | None
    horizon_ns: int = 0

    def write(self, work: Workload, *, horizon_ns: int, lower_bound_ns: int) -> None:
        """Write an instance's numbers."""
        from prescope.formulation.models.cp_sat_numbers import write_numbers

        write_numbers(self, work, horizon_ns=horizon_ns, lower_bound_ns=lower_bound_ns)

    def hint(self, work: Workload, values: dict[int, int]) -> None:
        """Hint the given variables, unused places and the host's starts with the rest."""
        from prescope.formulation.models.cp_sat_numbers import complete_hint

        complete_hint(self, work, values)


def lay_out(shape: CpSatShape) -> CpSatLayout:
    """Variables and constraints of a shape; every number is a placeholder."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    count = len(shape.missing)
    starts = [model.new_int_var(0, 1, f"start{layer}") for layer in range(count + 1)]
    layers, links, holds = [], [], []
    host_before: Any = None
    for layer in range(count):
        terms = LayerTerms()
        start, end = starts[layer], starts[layer + 1]
        release = starts[layer - shape.lookahead] if layer >= shape.lookahead else None
        device, chosen = [], []
        for resident, places in ((False, terms.missing), (True, terms.residents)):
            before: tuple[Any, Any] | None = None
            for rank in range((shape.residents if resident else shape.missing)[layer]):
                name = f"{layer}{'r' if resident else 'm'}{rank}"
                on, compute = model.new_bool_var(f"on{name}"), model.new_int_var(0, 1, f"compute{name}")
                work = model.new_optional_fixed_size_interval_var(compute, 1, on, f"device{name}")
                place = ExpertTerms(on=on.index, compute=compute.index, intervals=(work.index, None, None))
                place.starts = model.add(compute - start >= 1).only_enforce_if(on).index
                place.ends = model.add(end - compute >= 1).only_enforce_if(on).index
                order: Any = compute
                if not resident:
                    copy, held = (
                        model.new_int_var(0, 1, f"copy{name}"),
                        model.new_int_var(0, 1, f"held{name}"),
                    )
                    link = model.new_optional_fixed_size_interval_var(copy, 1, on, f"link{name}")
                    slot = model.new_optional_interval_var(copy, held, compute + 1, on, f"slot{name}")
                    place.copy, place.held = copy.index, held.index
                    place.intervals = (work.index, link.index, slot.index)
                    if release is not None:
                        place.released = model.add(copy - release >= 1).only_enforce_if(on).index
                    place.landed = model.add(compute - copy >= 1).only_enforce_if(on).index
                    links.append(link)
                    holds.append(slot)
                    order = copy
                if before is not None and shape.symmetry:
                    place.twin_on = model.add(before[0] - on >= 0).index
                    place.twin_order = model.add(order - before[1] >= 0).only_enforce_if(on).index
                before = (on, order)
                device.append(work)
                chosen.append(on)
                places.append(place)
        if device:
            model.add_no_overlap(device)
        terms.device = model.add(end - start - cp_model.LinearExpr.sum(chosen) >= 1).index
        if not shape.predicts:
            terms.host = model.add(end - start + cp_model.LinearExpr.sum(chosen) >= 1).index
        else:
            host_before = _host_lane(model, terms, layer, start, end, chosen, host_before)
        layers.append(terms)
    cumulative = None
    if links:
        model.add_no_overlap(links)
        cumulative = model.add_cumulative(holds, [1] * len(holds), 1).index
    host_last = None if host_before is None else model.add(starts[-1] - host_before >= 1).index
    model.minimize(starts[-1])
    return CpSatLayout(
        shape=shape,
        model=model,
        layer_start=[start.index for start in starts],
        layers=layers,
        cumulative=cumulative,
        host_last=host_last,
    )


def _host_lane(
    model: Any, terms: LayerTerms, layer: int, start: Any, end: Any, chosen: list[Any], before: Any
) -> Any:
    """The host's own clock; returns the expression of when it is free but for constants."""
    from ortools.sat.python import cp_model

    begin = model.new_int_var(0, 1, f"host{layer}")
    busy = model.new_bool_var(f"busy{layer}")
    terms.host_start, terms.host_busy = begin.index, busy.index
    terms.host_gate = model.add(begin - start >= 1).index
    if before is not None:
        terms.host_after = model.add(begin - before >= 1).index
    total = cp_model.LinearExpr.sum(chosen)
    terms.host = model.add(end - begin + total >= 1).only_enforce_if(busy).index
    for place, on in zip([*terms.missing, *terms.residents], chosen, strict=True):
        place.busy = model.add(on + busy >= 1).index
    return begin - total
