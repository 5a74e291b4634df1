"""Score a predictor on recorded sequences, as it would have run beside the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from prescope.formulation.checks import require_int
from prescope.formulation.demand import FloatArray, IntArray, PredictedDemand
from prescope.instances import BatchStep, RoutingTrace
from prescope.predictor.base import Predictor
from prescope.predictor.evaluation.emulation import Emulation
from prescope.predictor.evaluation.forecasts import Sheet
from prescope.predictor.evaluation.judge import Judge, Key
from prescope.predictor.evaluation.stopwatch import Stopwatch
from prescope.predictor.evaluation.tally import BatchTally, TokenTally
from prescope.predictor.replay import replay


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchScores:
    """A predictor on batches of one size.

    Parameters
    ----------
    batch
        Sequences at once.
    piece
        Tokens of the pieces that sequences were cut into, ``None`` where none was cut.
    steps
        Decode steps of the whole batch that were judged.
    tokens, batches
        Tallies by source layer (-1 is before the first gate of a step) and horizon.
    gate_ns
        Measured time of a gate with the forecasts of all horizons, the median.
    kept
        Some judged steps with their forecasts, as `forecasts_from_trace` gives them.
    """

    batch: int
    piece: int | None
    steps: int
    tokens: dict[Key, TokenTally]
    batches: dict[Key, BatchTally]
    gate_ns: int
    kept: tuple[tuple[BatchStep, PredictedDemand], ...] = ()


def score(
    predictor: Predictor,
    trace: RoutingTrace,
    sequences: Sequence[int],
    *,
    batch: int,
    horizons: int,
    reference: FloatArray,
    width: int | None = None,
    max_steps: int = 400,
    keep: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> BatchScores:
    """Step sequences together, ask for forecasts, and compare them with what was chosen.

    Parameters
    ----------
    predictor
        Sees every step, prompts included, in order.
    trace
        Recorded routing.
    sequences
        Which ones.
    batch
        How many at once.
    horizons
        Layers ahead to ask for at every gate.
    reference
        Popularity on the training sequences, ``[layers, experts]``: what Brier skill is measured against.
    width
        Experts named by the wider recall; by default twice ``top_k``.
    max_steps
        Decode steps of the whole batch judged at most, evenly spread; the predictor sees the others too.
    keep
        Judged steps whose forecasts are returned, evenly spread.
    progress
        Called with the number of steps done and of all.

    Raises
    ------
    ValueError
        When the sequences have too few decoded tokens, or the predictor answers in another shape.
    """
    require_int("horizons", horizons, 1)
    require_int("max_steps", max_steps, 1)
    emulation = Emulation(trace=trace, sequences=tuple(sequences), batch=batch)
    whole = [decoding and len(step.rows) == batch for step, decoding in emulation.steps()]
    numbers = np.flatnonzero(whole)[_spread(sum(whole), max_steps)]
    wanted = set(numbers.tolist())
    keeping = set(numbers[_spread(len(numbers), keep)].tolist()) if keep else set()
    kept: list[tuple[BatchStep, PredictedDemand]] = []
    width = min(2 * trace.meta.top_k, trace.meta.experts) if width is None else width
    judge = Judge(trace, horizons=horizons, reference=reference, width=width)
    watch = Stopwatch(predictor)
    gates_ns: list[int] = []
    judged, before_ns, sheet = False, 0, Sheet(trace, horizons)
    for step, layer in replay(watch, trace, (step for step, _ in emulation.steps())):
        if layer < 0:
            judged = step.step in wanted
            progress(step.step, len(whole))
        if judged:
            forecasts = [watch.predict(layer, ahead) for ahead in range(1, judge.reach(layer) + 1)]
            gates_ns.append(watch.elapsed_ns - before_ns)
            judge.add(predictor, step, layer, forecasts)
            if step.step in keeping:
                sheet = Sheet(trace, horizons) if layer < 0 else sheet
                sheet.add(layer, forecasts)
                if layer == trace.layers - 1:
                    kept.append((step, sheet.demand(predictor.name)))
        before_ns = watch.elapsed_ns
    judge.flush()
    progress(len(whole), len(whole))
    return BatchScores(
        batch=batch,
        piece=emulation.piece(),
        steps=len(wanted),
        tokens=judge.tokens,
        batches=judge.batches,
        gate_ns=int(np.median(gates_ns)),
        kept=tuple(kept),
    )


def _spread(total: int, most: int) -> IntArray:
    """At most ``most`` of ``total`` numbers, each from the middle of one of equal parts."""
    if total <= most:
        return np.arange(total)
    return ((np.arange(most) + 0.5) * total / most).astype(np.int64)
