"""Scores as plain numbers: per layer and horizon, and their means per horizon."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from statistics import fmean

from prescope.predictor.evaluation import BatchScores, BatchTally, Bin, Reliability, TokenTally


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """What a prediction is judged by; ``None`` where there was nothing to judge.

    Parameters
    ----------
    recall, wide_recall
        Top-k recall, and recall within twice as many experts.
    brier_skill
        Over popularity.
    calibration_error
        Of token probabilities of at least .05, adaptive bins.
    soft_count_error, hard_count_error
        Of the batch's counts, normalised: from expected tokens, and from every token's likeliest experts.
    four_in_six
        The PreScope paper's accuracy.
    event_error
        Calibration error of the probability that an expert is needed, adaptive bins.
    """

    recall: float | None
    wide_recall: float | None
    brier_skill: float | None
    calibration_error: float | None
    soft_count_error: float | None
    hard_count_error: float | None
    four_in_six: float | None
    event_error: float | None


MEASURES = tuple(field.name for field in fields(Measures))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One layer and horizon; ``layer - horizon`` is the gate that it was said at, -1 before the first one."""

    layer: int
    horizon: int
    measures: Measures


@dataclass(frozen=True, slots=True, kw_only=True)
class HorizonSummary:
    """All layers of one horizon, predicted at a gate of the same step.

    Parameters
    ----------
    horizon
        Layers ahead.
    mean
        Means over the layers; the event error is that of all layers' forecasts together.
    worst_brier_skill
        The lowest of any layer.
    worst_event_error
        The highest of any layer.
    reliability
        Of the batch event, all layers together.
    """

    horizon: int
    mean: Measures
    worst_brier_skill: float | None
    worst_event_error: float | None
    reliability: tuple[Bin, ...]


def cells(scores: BatchScores) -> tuple[Cell, ...]:
    """Every layer and horizon, by layer."""
    found = [
        Cell(
            layer=source + horizon,
            horizon=horizon,
            measures=_measures(tally, scores.batches[source, horizon]),
        )
        for (source, horizon), tally in scores.tokens.items()
    ]
    return tuple(sorted(found, key=lambda cell: (cell.layer, cell.horizon)))


def summaries(scores: BatchScores) -> tuple[HorizonSummary, ...]:
    """Every horizon that a gate reaches in its own step."""
    found = []
    for horizon in sorted({horizon for source, horizon in scores.tokens if source >= 0}):
        inside = [one for one in cells(scores) if one.horizon == horizon and one.layer >= horizon]
        together = Reliability()
        for (source, ahead), tally in scores.batches.items():
            if ahead == horizon and source >= 0:
                together.merge(tally.reliability)
        values = {name: [getattr(one.measures, name) for one in inside] for name in MEASURES}
        means = {name: _mean(column) for name, column in values.items()}
        found.append(
            HorizonSummary(
                horizon=horizon,
                mean=Measures(**{**means, "event_error": together.error()}),
                worst_brier_skill=min(_known(values["brier_skill"]), default=None),
                worst_event_error=max(_known(values["event_error"]), default=None),
                reliability=together.bins(),
            )
        )
    return tuple(found)


def _measures(tokens: TokenTally, batches: BatchTally) -> Measures:
    return Measures(
        recall=tokens.recall,
        wide_recall=tokens.wide_recall,
        brier_skill=tokens.brier_skill,
        calibration_error=tokens.calibration_error,
        soft_count_error=batches.soft_count_error,
        hard_count_error=batches.hard_count_error,
        four_in_six=batches.four_in_six,
        event_error=batches.event_error,
    )


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _mean(values: Iterable[float | None]) -> float | None:
    known = _known(values)
    return fmean(known) if known else None
