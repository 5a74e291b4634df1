"""The state of a source's training between two epochs, in one file without pickle."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from prescope.instances._atomic import atomic_file


@dataclass(slots=True, kw_only=True)
class Progressed:
    """How far training came.

    Parameters
    ----------
    best, best_loss
        Weights of the best epoch and their validation loss.
    epoch, waited
        Epochs done, and since the best one.
    """

    best: dict[str, Tensor]
    best_loss: float
    epoch: int
    waited: int


def write_progress(
    path: Path,
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    generator: torch.Generator,
    state: Progressed,
) -> None:
    """Write everything that the next epoch depends on, atomically."""
    from safetensors.torch import save

    tensors = {"generator": generator.get_state()}
    for prefix, part in (("now", network.state_dict()), ("best", state.best)):
        tensors |= {f"{prefix}.{name}": value.contiguous() for name, value in part.items()}
    for place, moments in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{place}.{name}": value.contiguous() for name, value in moments.items()}
    facts = {"best_loss": state.best_loss, "epoch": state.epoch, "waited": state.waited}
    with atomic_file(path) as stream:
        stream.write(save(tensors, metadata={"progress": json.dumps(facts)}))


def read_progress(
    path: Path, network: nn.Module, optimizer: torch.optim.Optimizer, generator: torch.Generator
) -> Progressed:
    """Take up a state: network, optimiser and generator are set to it.

    Raises
    ------
    ValueError
        When the file is damaged or belongs to another network.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            facts = json.loads((file.metadata() or {})["progress"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}
        network.load_state_dict(_part(tensors, "now."))
        inner = optimizer.state_dict()
        inner["state"] = {}
        for name, value in _part(tensors, "optimizer.").items():
            place, _, moment = name.partition(".")
            inner["state"].setdefault(int(place), {})[moment] = value
        optimizer.load_state_dict(inner)
        generator.set_state(tensors["generator"])
        return Progressed(best=_part(tensors, "best."), **facts)
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError, OSError) as error:
        raise ValueError(
            f"{path}: expected the state of this training, got another or a damaged one ({error}): "
            "remove the file to train that part again"
        ) from error


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
