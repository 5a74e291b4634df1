"""Hyper-parameters of LLaPor; ``benchmarks/llapor_tune.py`` compares others on validation sequences."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from prescope.formulation.checks import require_int

Kind = Literal["shallow", "gated"]
Loss = Literal["bce", "balanced-focal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """How the networks of one layer group are built and trained.

    Parameters
    ----------
    kind
        ``"shallow"``: one hidden layer; ``"gated"``: a residual block modulated by a gate on top of it.
    hidden
        Width of the hidden layers; 0 leaves the linear part alone.
    loss
        ``"bce"``, or ``"balanced-focal"``, which weighs experts by inverse frequency and hard cases more.
    rate
        Peak learning rate of AdamW.
    weight_decay
        Of AdamW.
    dropout
        Share of hidden units dropped in training.
    """

    kind: Kind
    hidden: int
    loss: Loss = "bce"
    rate: float = 8e-3
    weight_decay: float = 1e-3
    dropout: float = 0.0

    def __post_init__(self) -> None:
        require_int("hidden", self.hidden, 0)
        if self.kind not in ("shallow", "gated") or self.loss not in ("bce", "balanced-focal"):
            raise ValueError(f"expected a known kind and loss, got {self.kind!r} and {self.loss!r}")
        if not (self.rate > 0 and self.weight_decay >= 0 and 0 <= self.dropout < 1):
            raise ValueError(
                "expected rate > 0, weight_decay >= 0 and dropout in [0, 1), "
                f"got {self.rate}, {self.weight_decay}, {self.dropout}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class LlaporSettings:
    """Everything that decides what is trained and how.

    Parameters
    ----------
    horizons
        Layers ahead at most.
    components
        Principal components of the gating input; a smaller input is used as it is.
    history
        Components of what a sequence's previous token showed at all layers; 0 for no history.
    trend
        As many of them also as a moving average over the sequence.
    decay
        What is left of that average after one token.
    forget
        Share of training rows shown without history, as the tokens inside a prompt are.
    outer, middle
        The groups' networks.
    epochs, batch_rows
        Passes over the training rows at most, and rows per optimiser step.
    patience
        Epochs without a better validation loss before a network is left as it was at its best.
    seed
        Of initial weights, order and dropout.
    """

    horizons: int = 8
    components: int = 256
    history: int = 96
    trend: int = 32
    decay: float = 0.8
    forget: float = 0.1
    outer: GroupSettings = field(default_factory=lambda: GroupSettings(kind="shallow", hidden=128))
    middle: GroupSettings = field(default_factory=lambda: GroupSettings(kind="gated", hidden=96))
    epochs: int = 8
    batch_rows: int = 512
    patience: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("horizons", "components", "epochs", "batch_rows", "patience"):
            require_int(name, getattr(self, name), 1)
        require_int("history", self.history, 0)
        require_int("trend", self.trend, 0, self.history)
        require_int("seed", self.seed, 0)
        if not (0 <= self.decay < 1 and 0 <= self.forget < 1):
            raise ValueError(f"expected decay and forget in [0, 1), got {self.decay} and {self.forget}")

    def horizons_of(self, source: int, layers: int) -> int:
        """Horizons of a source: 0 is the start of a step, ``s`` the gate of layer ``s - 1``."""
        return min(self.horizons, layers - source)
