"""Judge a predictor beside the baselines on recorded routing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from prescope.evaluation.contestants import Contestant, contestants, trained_split
from prescope.evaluation.planning import Planner, PlanRow, truth_of
from prescope.evaluation.sequences import judged_sequences, reference_popularity
from prescope.evaluation.settings import EvaluateSettings
from prescope.instances import RoutingTrace
from prescope.predictor.evaluation import BatchScores, Emulation, score

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictorScores:
    """One predictor.

    Parameters
    ----------
    name
        In tables.
    missing
        Why it was left out; ``None`` where it was judged.
    batches
        Scores by batch size.
    """

    name: str
    missing: str | None = None
    batches: tuple[BatchScores, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """All that was found.

    Parameters
    ----------
    predictor
        Full name of the one asked for; its row is the first.
    model, layers, experts, top_k
        Of the trace.
    judged
        Sequences judged on.
    learned
        Sequences that baselines learned from.
    warning
        Why the figures may flatter.
    settings
        How it was made.
    predictors, plans
        Scores, and what planners make of the forecasts.
    """

    predictor: str
    model: str
    layers: int
    experts: int
    top_k: int
    judged: int
    learned: int
    warning: str | None
    settings: EvaluateSettings
    predictors: tuple[PredictorScores, ...]
    plans: tuple[PlanRow, ...]


def evaluate_predictor(
    predictor: str,
    trace: RoutingTrace,
    settings: EvaluateSettings | None = None,
    *,
    model: Any | None = None,
    progress: Progress = lambda what, done, total: None,
) -> Evaluation:
    """Judge a predictor and the baselines on sequences that none of them was trained on.

    Parameters
    ----------
    predictor
        A name of `prescope.predictor.predictors`, or a checkpoint folder.
    trace
        Recorded routing.
    settings
        How.
    model
        Model that was recorded, for the stale gate; ``None`` leaves that one out.
    progress
        Told how far it is.

    Raises
    ------
    ValueError
        When the predictor cannot be opened or belongs to another model, or the trace has too few tokens.
    """
    settings = EvaluateSettings() if settings is None else settings
    name, trained = trained_split(predictor)
    judged = judged_sequences(trace, trained, seed=settings.seed)
    reference = reference_popularity(trace, judged.split)
    planners = {
        batch: Planner(settings, batch=batch, popularity=reference)
        for batch in settings.batches
        if settings.plan_steps
    }
    entered = list(
        contestants(name, trace, judged.split, baselines=settings.baselines, prior=reference, model=model)
    )
    # What cannot be judged is refused before anything is begun.
    if entered[0].make is None:
        raise ValueError(f"expected a trace that {entered[0].name!r} can work on: {entered[0].missing}")
    entered[0].make()
    for batch in settings.batches:
        Emulation(trace=trace, sequences=judged.split.test, batch=batch)
    scored: list[PredictorScores] = []
    plans: list[PlanRow] = []
    for contestant in entered:
        found = _score(contestant, trace, judged.split.test, reference, settings, progress)
        scored.append(found)
        for one in found.batches:
            if one.batch in planners:
                progress(f"{found.name}, batch {one.batch}, planning", 0, 1)
                charged = one.gate_ns if settings.charge else 0
                plans += planners[one.batch].rows(found.name, one.kept, prediction_ns=charged)
    for one in scored[0].batches:
        if one.batch in planners:
            steps = [(step, truth_of(step, settings.horizons)) for step, _ in one.kept]
            plans += planners[one.batch].rows("oracle", steps)
    return Evaluation(
        predictor=name,
        model=trace.meta.model,
        layers=trace.layers,
        experts=trace.meta.experts,
        top_k=trace.meta.top_k,
        judged=len(judged.split.test),
        learned=len(judged.split.train),
        warning=judged.warning,
        settings=settings,
        predictors=tuple(scored),
        plans=tuple(plans),
    )


def _score(
    contestant: Contestant,
    trace: RoutingTrace,
    sequences: tuple[int, ...],
    reference: Any,
    settings: EvaluateSettings,
    progress: Progress,
) -> PredictorScores:
    if contestant.make is None:
        return PredictorScores(name=contestant.name, missing=contestant.missing)
    batches = []
    for batch in settings.batches:
        what = f"{contestant.name}, batch {batch}"
        progress(f"{what}, opening", 0, 1)
        batches.append(
            score(
                # Afresh: what was seen with another batch size must not help.
                contestant.make(),
                trace,
                sequences,
                batch=batch,
                horizons=min(settings.horizons, trace.layers),
                reference=reference,
                max_steps=settings.max_steps,
                keep=settings.plan_steps,
                progress=partial(progress, what),
            )
        )
    return PredictorScores(name=contestant.name, batches=tuple(batches))
