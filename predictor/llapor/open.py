"""A predictor from a checkpoint, for the model that it was trained for and no other."""

from __future__ import annotations

import logging

from prescope.predictor.checkpoint_files import CheckpointError
from prescope.predictor.llapor.checkpoint import load_llapor
from prescope.predictor.llapor.model import ModelFacts
from prescope.predictor.llapor.predictor import Llapor
from prescope.predictor.llapor.tuning import Tuner
from prescope.predictor.registry import PredictorContext

logger = logging.getLogger(__name__)

_TUNED = "+tune"


def open_llapor(folder: str, context: PredictorContext) -> Llapor:
    """Load a checkpoint for the model of a context.

    Parameters
    ----------
    folder
        Written by `prescope.predictor.llapor.save_llapor`; with ``+tune`` at its end the networks are tuned
        while running.
    context
        The model that will be observed.

    Raises
    ------
    ValueError
        When the checkpoint cannot be read or was trained for another model, with all that differs.
    """
    tune = folder.endswith(_TUNED)
    model = load_llapor(folder.removesuffix(_TUNED))
    facts = model.facts
    running = ModelFacts(
        name="",
        fingerprint=context.fingerprint,
        layers=context.layers,
        experts=context.experts,
        top_k=context.top_k,
        hidden_size=facts.hidden_size if context.hidden_size is None else context.hidden_size,
    )
    if different := facts.differences(running):
        raise CheckpointError(
            f"{folder}: trained for the model {facts.name!r}, which differs from this one in "
            f"{'; '.join(different)}: record this model with `prescope record --hidden` and train on that"
        )
    if not (facts.fingerprint and context.fingerprint):
        logger.warning("%s: the weights of the gates could not be compared with those trained on", folder)
    return Llapor(model, tuner=Tuner(model) if tune else None)
