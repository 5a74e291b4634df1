"""An evaluation as a plain object for ``--json`` (docs/json.md)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from prescope.evaluation.cells import cells, summaries
from prescope.evaluation.planning import PlanRow
from prescope.evaluation.run import Evaluation, PredictorScores
from prescope.predictor.evaluation import BatchScores


def evaluation_document(evaluation: Evaluation) -> dict[str, Any]:
    """Everything that was found, per layer and horizon."""
    settings = evaluation.settings
    return {
        "predictor": evaluation.predictor,
        "model": evaluation.model,
        "layers": evaluation.layers,
        "experts": evaluation.experts,
        "top_k": evaluation.top_k,
        "judged_sequences": evaluation.judged,
        "learned_sequences": evaluation.learned,
        "warning": evaluation.warning,
        "preset": settings.preset if settings.plan_steps else None,
        "slots": settings.slots,
        "resident_fraction": settings.resident_fraction,
        "charged": settings.charge,
        "predictors": [_predictor(one) for one in evaluation.predictors],
        "plans": [_plan(row) for row in evaluation.plans],
    }


def _predictor(found: PredictorScores) -> dict[str, Any]:
    return {
        "name": found.name,
        "missing": found.missing,
        "batches": [_batch(scores) for scores in found.batches],
    }


def _batch(scores: BatchScores) -> dict[str, Any]:
    return {
        "batch": scores.batch,
        "piece": scores.piece,
        "steps": scores.steps,
        "gate_ns": scores.gate_ns,
        "horizons": [
            {
                "horizon": one.horizon,
                **asdict(one.mean),
                "worst_brier_skill": one.worst_brier_skill,
                "worst_event_error": one.worst_event_error,
                "reliability": [asdict(part) for part in one.reliability],
            }
            for one in summaries(scores)
        ],
        "cells": [
            {"layer": one.layer, "horizon": one.horizon, **asdict(one.measures)} for one in cells(scores)
        ],
    }


def _plan(row: PlanRow) -> dict[str, Any]:
    return {**asdict(row), "gain": row.gain, "clairvoyant_share": row.share}
