"""The small network that LLaPor is compared with: one hidden layer on what the gate sees and chose.

Input: the gating input, the chosen experts and their routing weights; one hidden layer of 256 units, four
horizons, cross entropy. No history, no components, no calibration.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from prescope.instances import RoutingTrace
from prescope.predictor.llapor.features import chosen
from prescope.predictor.llapor.rows import TraceRows, trace_rows
from prescope.predictor.split import SequenceSplit

HORIZONS, HIDDEN = 4, 256
_EPOCHS, _ROWS, _RATE = 12, 512, 1e-3


def reference_recall(train: RoutingTrace, split: SequenceSplit, test: RoutingTrace) -> np.ndarray:
    """Recall on all sequences of ``test``, float64 ``[layers - 1, HORIZONS]``; NaN beyond the last layer."""
    learnt = trace_rows(train, (*split.train, *split.validation))
    judged = trace_rows(test, range(test.sequences))
    found = np.full((train.layers - 1, HORIZONS), np.nan)
    for layer in range(train.layers - 1):
        reach = min(HORIZONS, train.layers - 1 - layer)
        network = _train(learnt, layer, reach, train.meta.experts)
        found[layer, :reach] = _recall(network, judged, layer, reach, train.meta)
    return found


def _rows(rows: TraceRows, at: torch.Tensor, layer: int, experts: int) -> torch.Tensor:
    ids = rows.ids[at, layer]
    weights = torch.zeros(len(at), experts)
    if rows.weights is not None:
        weights.scatter_(1, ids, rows.weights[at, layer])
    return torch.cat([rows.hidden[layer][at].float(), chosen(ids, experts), weights], dim=1)


def _train(rows: TraceRows, layer: int, reach: int, experts: int) -> nn.Module:
    torch.manual_seed(layer)
    inputs = rows.hidden[layer].shape[1] + 2 * experts
    network = nn.Sequential(
        nn.Linear(inputs, HIDDEN), nn.GELU(), nn.Dropout(0.1), nn.Linear(HIDDEN, reach * experts)
    )
    steps = len(rows.ids) // _ROWS
    optimizer = torch.optim.AdamW(network.parameters(), lr=_RATE, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, _RATE, total_steps=_EPOCHS * steps)
    for _ in range(_EPOCHS):
        for at in torch.randperm(len(rows.ids))[: steps * _ROWS].split(_ROWS):
            logits = network(_rows(rows, at, layer, experts)).view(-1, reach, experts)
            targets = chosen(rows.ids[at, layer + 1 : layer + 1 + reach], experts)
            optimizer.zero_grad()
            (functional.binary_cross_entropy_with_logits(logits, targets) * experts).backward()
            optimizer.step()
            schedule.step()
    return network.eval()


def _recall(network: nn.Module, rows: TraceRows, layer: int, reach: int, meta: object) -> np.ndarray:
    experts, top_k = meta.experts, meta.top_k  # type: ignore[attr-defined]
    hits = torch.zeros(reach, dtype=torch.float64)
    with torch.no_grad():
        for at in torch.arange(len(rows.ids)).split(4096):
            logits = network(_rows(rows, at, layer, experts)).view(-1, reach, experts)
            truth = chosen(rows.ids[at, layer + 1 : layer + 1 + reach], experts)
            hits += truth.gather(2, logits.topk(top_k, dim=2).indices).sum(dim=(0, 2))
    return (hits / (len(rows.ids) * top_k)).numpy()
