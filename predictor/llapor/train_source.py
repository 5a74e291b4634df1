"""Training one source's network, in epochs that can be taken up again."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from prescope.predictor.llapor.features import chosen
from prescope.predictor.llapor.losses import balance, loss_of
from prescope.predictor.llapor.network import SourceNetwork, least_squares
from prescope.predictor.llapor.resume import Progressed, read_progress, write_progress
from prescope.predictor.llapor.rows import SourceData
from prescope.predictor.llapor.settings import GroupSettings, LlaporSettings

_BLOCK = 4096
# Rows that the linear start is fitted to at most.
_START_ROWS = 65536


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochReport:
    """What an epoch came to.

    Parameters
    ----------
    source, epoch
        Which, epochs from 1.
    loss
        Validation loss per row and horizon, nats.
    best
        Lowest so far.
    """

    source: int
    epoch: int
    loss: float
    best: float


def train_source(
    network: SourceNetwork,
    train: SourceData,
    validation: SourceData,
    *,
    source: int,
    group: GroupSettings,
    settings: LlaporSettings,
    partial: Path | None = None,
    progress: Callable[[EpochReport], None] = lambda report: None,
) -> None:
    """Train a network in place and leave it with the weights of its best epoch.

    Parameters
    ----------
    network
        Fresh.
    train, validation
        Rows of different sequences.
    source
        Which source; its random numbers depend on it and on the seed alone.
    group, settings
        Hyper-parameters.
    partial
        File that keeps the state after every epoch; when it exists, training goes on from it.
    progress
        Called after every epoch.
    """
    generator = torch.Generator().manual_seed(settings.seed * 1000 + source)
    every = torch.arange(len(train))
    start = every[:: max(1, len(train) // _START_ROWS)]
    start_targets = chosen(train.target_ids(start, network.horizons), network.experts)
    weights = balance(start_targets.mean(dim=0))
    network.start_from(*least_squares(train.main[start], start_targets.flatten(1)))
    optimizer = torch.optim.AdamW(network.parameters(), lr=group.rate, weight_decay=group.weight_decay)
    steps = max(1, math.ceil(len(train) / settings.batch_rows))
    state = Progressed(best=_copy(network), best_loss=validation_loss(network, validation), epoch=0, waited=0)
    if partial is not None and partial.exists():
        state = read_progress(partial, network, optimizer, generator)
    while state.epoch < settings.epochs and state.waited < settings.patience:
        network.train()
        order = torch.randperm(len(train), generator=generator)
        for number, at in enumerate(order.tensor_split(steps)):
            rate = group.rate * _schedule((state.epoch + (number + 0.5) / steps) / settings.epochs)
            for entry in optimizer.param_groups:
                entry["lr"] = rate
            forget = torch.rand(len(at), generator=generator) < settings.forget
            logits = network(train.features(at, forget), generator)
            targets = chosen(train.target_ids(at, network.horizons), network.experts)
            optimizer.zero_grad(set_to_none=True)
            loss_of(group.loss, logits, targets, weights).backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
        loss = validation_loss(network, validation)
        state.epoch += 1
        if loss < state.best_loss:
            state.best, state.best_loss, state.waited = _copy(network), loss, 0
        else:
            state.waited += 1
        if partial is not None:
            write_progress(partial, network, optimizer, generator, state)
        progress(EpochReport(source=source, epoch=state.epoch, loss=loss, best=state.best_loss))
    network.load_state_dict(state.best)
    network.eval()


def validation_loss(network: SourceNetwork, data: SourceData) -> float:
    """Cross entropy per row and horizon, summed over experts, nats."""
    network.eval()
    total = 0.0
    with torch.no_grad():
        for at in torch.split(torch.arange(len(data)), _BLOCK):
            logits = network(data.features(at))
            targets = chosen(data.target_ids(at, network.horizons), network.experts)
            total += float(loss_of("bce", logits, targets, targets)) * len(at)
    return total / max(1, len(data))


def _schedule(done: float) -> float:
    """Share of the peak learning rate: a short rise, then a cosine."""
    rise = 0.1
    return done / rise if done < rise else 0.5 * (1 + math.cos(math.pi * (done - rise) / (1 - rise)))


def _copy(network: SourceNetwork) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in network.state_dict().items()}
