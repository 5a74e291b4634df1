"""What the networks are shown: gating inputs, histories and tokens, each in a few components."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Basis:
    """Linear maps fitted to the training rows of a trace.

    Parameters
    ----------
    mean
        Mean gating input, float32 ``[layers, hidden]``.
    project
        From a centred gating input to its principal components, ``[layers, hidden, components]``.
    recall
        From the centred gating inputs of all layers to the history of a token, as a sum over layers,
        ``[layers, hidden, history]``.
    trend_scale
        Brings the moving average of the first ``trend`` components to unit size, ``[trend]``.
    tokens
        Components of the gating input of layer 0 to be expected of a token, ``[vocabulary, components]``;
        with a vocabulary of 0 where traces do not name their tokens.
    """

    mean: Tensor
    project: Tensor
    recall: Tensor
    trend_scale: Tensor
    tokens: Tensor

    @property
    def components(self) -> int:
        """Components of a gating input."""
        return int(self.project.shape[2])

    @property
    def history(self) -> int:
        """Components of a token's history."""
        return int(self.recall.shape[2])

    @property
    def trend(self) -> int:
        """Components of the moving average."""
        return int(self.trend_scale.shape[0])

    def components_of(self, layer: int, hidden: Tensor) -> Tensor:
        """Components of gating inputs ``[rows, hidden]`` of a layer."""
        return (hidden - self.mean[layer]) @ self.project[layer]

    def history_part(self, layer: int, hidden: Tensor) -> Tensor:
        """What a layer adds to the history of its rows, ``[rows, history]``."""
        return (hidden - self.mean[layer]) @ self.recall[layer]

    def token_components(self, token_ids: Tensor | None, rows: int) -> Tensor:
        """Components to be expected of tokens and whether they are known, ``[rows, components + 1]``."""
        found = torch.zeros(rows, self.components + 1)
        if token_ids is None or not self.tokens.shape[0]:
            return found
        known = (token_ids >= 0) & (token_ids < self.tokens.shape[0])
        found[known, :-1] = self.tokens[token_ids[known]]
        # A token that was never trained on has a row of zeros and counts as unknown.
        found[:, -1] = (found[:, :-1] != 0).any(dim=1)
        return found


def fit_basis(
    hidden: list[Tensor],
    token_ids: Tensor | None,
    *,
    components: int,
    history: int,
    trend: int,
) -> Basis:
    """Fit to training rows.

    Parameters
    ----------
    hidden
        Gating inputs of each layer, ``[rows, hidden]``.
    token_ids
        Input token of each row, int64 ``[rows]``, -1 unknown; or ``None``.
    components, history, trend
        As in `LlaporSettings`; cut to what the inputs have.
    """
    layers, width = len(hidden), hidden[0].shape[1]
    kept = min(components, width)
    # Two stages: the covariance of all layers side by side would not fit into memory for a large model.
    per_layer = min(width, max(8, 1024 // layers))
    means, projects, firsts, parts = [], [], [], []
    for block in hidden:
        rows = block.float()
        mean = rows.mean(dim=0)
        centred = rows - mean
        covariance = centred.T @ centred / max(1, len(rows))
        values, vectors = torch.linalg.eigh(covariance)
        size = float(values.clamp_min(0).sum().div(width).sqrt().clamp_min(1e-6))
        means.append(mean)
        # An input that needs no compression keeps its channels: a rotation would only cost time.
        projects.append(torch.eye(width) / size if kept == width else vectors[:, -kept:].flip(1) / size)
        firsts.append(vectors[:, -per_layer:])
        parts.append(centred @ firsts[-1])
    recall = _history(parts, firsts, min(history, per_layer * layers))
    cut = min(trend, recall.shape[2])
    basis = Basis(
        mean=torch.stack(means),
        project=torch.stack(projects),
        recall=recall,
        trend_scale=torch.ones(cut),
        tokens=torch.zeros(0, kept),
    )
    if token_ids is None or int(token_ids.max()) < 0:
        return basis
    return _with_tokens(basis, hidden[0], token_ids)


def _history(parts: list[Tensor], firsts: list[Tensor], kept: int) -> Tensor:
    if not kept:
        return torch.zeros(len(parts), firsts[0].shape[0], 0)
    joined = torch.cat(parts, dim=1)
    values, vectors = torch.linalg.eigh(joined.T @ joined / max(1, len(joined)))
    # Unit variance, except for directions that hardly vary: those must not be blown up.
    floor = values[-1].clamp_min(1e-6) * 1e-6
    white = vectors[:, -kept:].flip(1) / values[-kept:].flip(0).clamp_min(floor).sqrt()
    by_layer = white.split([part.shape[1] for part in parts])
    return torch.stack([first @ part for first, part in zip(firsts, by_layer, strict=True)])


def _with_tokens(basis: Basis, hidden: Tensor, token_ids: Tensor) -> Basis:
    known = token_ids >= 0
    names = token_ids[known]
    vocabulary = int(names.max()) + 1
    components = basis.components_of(0, hidden[known].float())
    sums = torch.zeros(vocabulary, basis.components).index_add_(0, names, components)
    seen = torch.bincount(names, minlength=vocabulary).float()[:, None]
    # Pulled to the mean (zero) where a token was seen once or twice.
    return Basis(
        mean=basis.mean,
        project=basis.project,
        recall=basis.recall,
        trend_scale=basis.trend_scale,
        tokens=sums / (seen + 0.5),
    )
