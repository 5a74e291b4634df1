"""Prediction from routing alone, for traces and models without hidden states at hand."""

from prescope.predictor.checkpoint_files import CheckpointError
from prescope.predictor.routing_only.checkpoint import load_routing_only, save_routing_only
from prescope.predictor.routing_only.model import RoutingOnlyModel
from prescope.predictor.routing_only.predictor import RoutingOnly
from prescope.predictor.routing_only.settings import RIDGE, RoutingOnlySettings
from prescope.predictor.routing_only.train import train_routing_only

__all__ = [
    "RIDGE",
    "CheckpointError",
    "RoutingOnly",
    "RoutingOnlyModel",
    "RoutingOnlySettings",
    "load_routing_only",
    "save_routing_only",
    "train_routing_only",
]
