"""A predictor from a checkpoint, for the model that it was trained for and no other."""

from __future__ import annotations

import logging

from prescope.predictor.checkpoint_files import CheckpointError
from prescope.predictor.registry import PredictorContext
from prescope.predictor.routing_only.checkpoint import load_routing_only
from prescope.predictor.routing_only.predictor import RoutingOnly

logger = logging.getLogger(__name__)


def open_routing_only(folder: str, context: PredictorContext) -> RoutingOnly:
    """Load a checkpoint for the model of a context.

    Parameters
    ----------
    folder
        Written by `prescope.predictor.routing_only.save_routing_only`.
    context
        The model that will be observed.

    Raises
    ------
    ValueError
        When the checkpoint cannot be read or was trained for another model, with all that differs.
    """
    model = load_routing_only(folder)
    pairs: dict[str, tuple[object, object]] = {
        "MoE layers": (model.layers, context.layers),
        "experts": (model.experts, context.experts),
        "experts per token": (model.top_k, context.top_k),
    }
    if model.fingerprint and context.fingerprint:
        pairs["weights of the gates"] = (model.fingerprint, context.fingerprint)
    different = [
        f"{what}: {trained}, here {here}" for what, (trained, here) in pairs.items() if trained != here
    ]
    if different:
        raise CheckpointError(
            f"{folder}: trained for the model {model.name!r}, which differs from this one in "
            f"{'; '.join(different)}: record this model with `prescope record` and train on that"
        )
    if "weights of the gates" not in pairs:
        logger.warning("%s: the weights of the gates could not be compared with those trained on", folder)
    return RoutingOnly(model)
