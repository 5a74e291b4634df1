"""Instances from recorded routing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy.typing as npt

from prescope.formulation import CostModel, Instance, Tier, preset
from prescope.formulation.checks import require_int
from prescope.instances.batches import OnMissing, decode_batches, popularity, prefill
from prescope.instances.instance_file import InstanceFile
from prescope.instances.provenance import Provenance
from prescope.instances.residents import choose_residents
from prescope.instances.routing_trace import Phase, RoutingTrace

GENERATOR = "prescope.instances.build_instances, version 1"


def build_instances(
    trace: RoutingTrace,
    costs: str | CostModel,
    batch: int,
    *,
    slots: int,
    lookahead: int | None = None,
    resident_fraction: float = 0.25,
    residents: Sequence[Sequence[int]] | None = None,
    resident_popularity: npt.ArrayLike | None = None,
    phase: Phase = Phase.DECODE,
    sequences: Sequence[int] | None = None,
    segment_tokens: int | None = None,
    every: int = 1,
    limit: int | None = None,
    tier: Tier | None = None,
    host_computes: bool | None = None,
    on_missing: OnMissing = "refuse",
    name: str | None = None,
    notes: str = "",
) -> tuple[InstanceFile, ...]:
    """One instance per step of batches taken from a trace, ready for `write_instance`.

    Parameters
    ----------
    trace
        Recorded routing.
    costs
        ``"model@machine"``, whose costs are used for the trace's number of layers, or a cost model.
    batch
        Sequences stepped together (decode) or prompts taken together (prefill).
    slots
        Device buffers for copied experts.
    lookahead
        Layers ahead that copies may start; by default the number of layers.
    resident_fraction, resident_popularity
        The most popular experts of each layer stay resident; popularity, ``[layers, experts]``, is by
        default that of the whole trace, the batch itself included.
    residents
        Instead: the residents of each layer.
    phase
        Decode steps or prefills.
    sequences, segment_tokens, on_missing
        As for `decode_batches`; ``segment_tokens`` is the chunk of a prefill.
    every, limit
        Keep each ``every``-th step, ``limit`` of them at most.
    tier, host_computes
        Instead of the preset's; for a cost model by default RAM, and a host that computes.
    name
        First part of the instances' names; by default the trace's model and the preset.
    notes
        Added to the provenance.

    Raises
    ------
    ValueError
        When an argument is out of range or does not fit the trace.
    """
    require_int("every", every, 1)
    if limit is not None:
        require_int("limit", limit, 1)
    if isinstance(costs, str):
        chosen = preset(costs, layers=trace.layers)
        model, tier, label = chosen.costs, tier or chosen.tier, costs
        host_computes = chosen.host_computes if host_computes is None else host_computes
    else:
        model, tier, label = costs, tier or Tier.RAM, costs.source
        host_computes = True if host_computes is None else host_computes
    if residents is None:
        table = popularity(trace) if resident_popularity is None else resident_popularity
        pinned = choose_residents(table, fraction=resident_fraction)
        of = "the whole trace" if resident_popularity is None else "the popularity given"
        how = f"residents: the {resident_fraction:g} most popular of {of}"
    else:
        pinned = tuple(tuple(row) for row in residents)
        how = "residents: given"
    if phase is Phase.DECODE:
        steps = decode_batches(
            trace, batch, sequences=sequences, segment_tokens=segment_tokens, on_missing=on_missing
        )
    else:
        steps = prefill(trace, batch, sequences=sequences, chunk_tokens=segment_tokens, on_missing=on_missing)
    first = name or f"{trace.meta.model.rpartition('/')[2]}:{label}"
    kind = phase.name.lower()
    files = []
    for step in islice(steps, 0, None if limit is None else every * limit, every):
        provenance = Provenance(
            source=f"routing of {trace.meta.model} ({trace.meta.source}); costs: {model.source}",
            generator=GENERATOR,
            notes=f"{kind}, {batch} sequences, group {step.group}, step {step.step}; {how}"
            + (f"; {notes}" if notes else ""),
        )
        instance = Instance(
            name=f"{first}-{kind}-b{batch}-g{step.group}-t{step.step}",
            costs=model,
            demand=step.demand,
            residents=pinned,
            slots=slots,
            lookahead=trace.layers if lookahead is None else lookahead,
            tier=tier,
            host_computes=host_computes,
        )
        files.append(InstanceFile(instance=instance, provenance=provenance))
    return tuple(files)
