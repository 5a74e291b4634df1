"""Horizons from recorded routing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from prescope.formulation import CostModel, Demand, PredictedDemand, Tier, preset
from prescope.formulation.checks import require_int
from prescope.formulation.horizon import Horizon
from prescope.instances.batches import BatchStep, decode_batches, popularity
from prescope.instances.horizon_file import HorizonFile
from prescope.instances.provenance import Provenance
from prescope.instances.residents import choose_residents
from prescope.instances.routing_trace import RoutingTrace

GENERATOR = "prescope.instances.build_horizon, version 1"


def build_horizon(
    trace: RoutingTrace,
    costs: str | CostModel,
    batch: int,
    *,
    steps: int,
    slots: int,
    lookahead: int | None = None,
    resident_fraction: float = 0.25,
    resident_popularity: npt.ArrayLike | None = None,
    sequences: Sequence[int] | None = None,
    history: Sequence[int] = (),
    predict: Callable[[Demand, int], PredictedDemand] | None = None,
    tier: Tier | None = None,
    host_computes: bool | None = None,
    name: str | None = None,
    generator: str = GENERATOR,
    seed: int | None = None,
    notes: str = "",
) -> HorizonFile:
    """The first decode steps of a batch from a trace, in a row, ready for `write_horizon`.

    Parameters
    ----------
    trace
        Recorded routing.
    costs
        ``"model@machine"``, whose costs are used for the trace's number of layers, or a cost model.
    batch
        Sequences stepped together; one that ends makes way for nobody.
    steps
        Steps, which all ``batch`` sequences must reach.
    slots, lookahead, resident_fraction, tier, host_computes
        As for `build_instances`.
    resident_popularity
        Popularity that the first residents are chosen by, ``[layers, experts]``; by default that of the
        history, or of the whole trace, the steps included, where there is no history.
    sequences
        Where the batch is taken from, in this order; by default all sequences that are not history.
    history
        Sequences whose decode steps, one token each, a rule may learn from.
    predict
        Called with the demand of a step and its number for what a predictor said of it.
    name
        By default the trace's model, the preset and the batch.
    generator, seed, notes
        For the provenance.

    Raises
    ------
    ValueError
        When an argument is out of range or does not fit the trace, or the sequences are too short.
    """
    require_int("steps", steps, 1)
    past = set(history)
    chosen_sequences = (
        [number for number in range(trace.sequences) if number not in past]
        if sequences is None
        else list(sequences)
    )
    if both := past & set(chosen_sequences):
        raise ValueError(f"expected history apart from the steps, got sequence {min(both)} in both")
    if sequences is None and len(chosen_sequences) < batch:
        raise ValueError(
            f"expected {batch} sequences that are not history, got {len(chosen_sequences)}: "
            f"{len(past)} of the trace's {trace.sequences} are history"
        )
    if isinstance(costs, str):
        chosen = preset(costs, layers=trace.layers)
        model, tier, label = chosen.costs, tier or chosen.tier, costs
        host_computes = chosen.host_computes if host_computes is None else host_computes
    else:
        model, tier, label = costs, tier or Tier.RAM, costs.source
        host_computes = True if host_computes is None else host_computes
    demands = tuple(step.demand for step in horizon_steps(trace, batch, steps, chosen_sequences))
    rows = tuple(
        tuple(step.demand for step in decode_batches(trace, 1, sequences=[number])) for number in history
    )
    if resident_popularity is None:
        resident_popularity = (
            sum(np.asarray(demand.counts) for row in rows for demand in row) if rows else popularity(trace)
        )
    horizon = Horizon(
        name=name or f"{trace.meta.model.rpartition('/')[2]}:{label}-b{batch}-t{steps}",
        costs=model,
        demands=demands,
        residents=choose_residents(resident_popularity, fraction=resident_fraction),
        slots=slots,
        lookahead=trace.layers if lookahead is None else lookahead,
        tier=tier,
        host_computes=host_computes,
        predicted=() if predict is None else tuple(predict(one, step) for step, one in enumerate(demands)),
        history=rows,
    )
    provenance = Provenance(
        source=f"routing of {trace.meta.model} ({trace.meta.source}); costs: {model.source}",
        generator=generator,
        seed=seed,
        notes=f"decode, {batch} sequences, {steps} steps in a row; {len(rows)} other sequences as history; "
        f"residents: the {resident_fraction:g} most popular" + (f"; {notes}" if notes else ""),
    )
    return HorizonFile(horizon=horizon, provenance=provenance)


def horizon_steps(
    trace: RoutingTrace, batch: int, steps: int, sequences: Sequence[int]
) -> tuple[BatchStep, ...]:
    """The first decode steps of the first ``batch`` sequences.

    Raises
    ------
    ValueError
        When there are fewer sequences, or one of them is shorter.
    """
    found = tuple(
        step for step in decode_batches(trace, batch, sequences=sequences, max_steps=steps) if step.group == 0
    )
    full = sum(step.demand.batch_tokens == batch for step in found)
    if full < steps:
        raise ValueError(
            f"expected {batch} sequences of at least {steps} decoded tokens, got {full} steps of all {batch}"
        )
    return found
