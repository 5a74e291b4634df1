"""The network of one source: from the rows of a gate to the experts of the coming layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from prescope.predictor.llapor.settings import GroupSettings


class SourceNetwork(nn.Module):
    """A linear part on the main input, and a small network on everything that corrects it.

    The linear part is what a stale gate would be if it were fitted to look ahead; `start_from` sets it by
    least squares, and training goes on from there.

    Parameters
    ----------
    inputs
        Columns of a row of features.
    main
        How many of them, the first ones, are the main input.
    horizons, experts
        Shape of the answer.
    group
        How it is built.
    generator
        For initial weights.
    """

    def __init__(
        self,
        *,
        inputs: int,
        main: int,
        horizons: int,
        experts: int,
        group: GroupSettings,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.main, self.horizons, self.experts = main, horizons, experts
        self.gated = group.kind == "gated" and group.hidden > 0
        self.dropout = group.dropout
        width, outputs = group.hidden, horizons * experts

        def weights(rows: int, columns: int, scale: float = 1.0) -> nn.Parameter:
            bound = scale / max(1, columns) ** 0.5
            return nn.Parameter((torch.rand(rows, columns, generator=generator) * 2 - 1) * bound)

        self.linear = nn.Parameter(torch.zeros(outputs, main))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.enter = weights(width, inputs)
        self.enter_bias = nn.Parameter(torch.zeros(width))
        self.leave = weights(outputs, width)
        if self.gated:
            self.first, self.second = weights(width, width), weights(width, width)
            self.first_bias, self.second_bias = (nn.Parameter(torch.zeros(width)) for _ in range(2))
            self.gate = weights(width, main)
            self.gate_bias = nn.Parameter(torch.zeros(width))

    @staticmethod
    def shapes(
        *, inputs: int, main: int, horizons: int, experts: int, group: GroupSettings
    ) -> dict[str, tuple[int, ...]]:
        """Shape of every parameter of such a network, to compare files with before one is made."""
        width, outputs = group.hidden, horizons * experts
        found: dict[str, tuple[int, ...]] = {
            "linear": (outputs, main),
            "bias": (outputs,),
            "enter": (width, inputs),
            "enter_bias": (width,),
            "leave": (outputs, width),
        }
        if group.kind == "gated" and width > 0:
            found |= {"first": (width, width), "second": (width, width), "gate": (width, main)}
            found |= dict.fromkeys(("first_bias", "second_bias", "gate_bias"), (width,))
        return found

    def start_from(self, linear: Tensor, bias: Tensor) -> None:
        """Set the linear part: ``[horizons * experts, main]`` and ``[horizons * experts]``."""
        with torch.no_grad():
            self.linear.copy_(linear)
            self.bias.copy_(bias)

    def forward(self, rows: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Logits ``[rows, horizons, experts]``; with a generator, some hidden units are dropped."""
        main = rows[:, : self.main]
        answer = functional.linear(main, self.linear, self.bias)
        hidden = functional.gelu(functional.linear(rows, self.enter, self.enter_bias))
        if self.gated:
            inner = functional.gelu(functional.linear(hidden, self.first, self.first_bias))
            inner = functional.linear(self._drop(inner, generator), self.second, self.second_bias)
            opened = torch.sigmoid(functional.linear(main, self.gate, self.gate_bias))
            hidden = torch.addcmul(hidden, opened, inner)
        answer = torch.addmm(answer, self._drop(hidden, generator), self.leave.T)
        return answer.view(-1, self.horizons, self.experts)

    def rescale(self, scale: Tensor, offset: Tensor) -> None:
        """Replace the logits of every horizon by ``scale * logits + offset``, each ``[horizons]``."""
        each = scale.repeat_interleave(self.experts)
        with torch.no_grad():
            self.linear.mul_(each[:, None])
            self.leave.mul_(each[:, None])
            self.bias.mul_(each).add_(offset.repeat_interleave(self.experts))

    def _drop(self, hidden: Tensor, generator: torch.Generator | None) -> Tensor:
        if generator is None or not self.dropout:
            return hidden
        kept = torch.rand(hidden.shape, generator=generator) >= self.dropout
        return hidden * kept / (1.0 - self.dropout)


def least_squares(main: Tensor, targets: Tensor, *, sharpness: float = 8.0) -> tuple[Tensor, Tensor]:
    """Linear logits for `SourceNetwork.start_from` in closed form.

    Parameters
    ----------
    main
        Main inputs, float32 ``[rows, main]``.
    targets
        One where an expert was chosen, float32 ``[rows, outputs]``.
    sharpness
        Logits per unit of the fitted probability; the logistic curve rises by a quarter of it per unit.
    """
    mean, share = main.mean(dim=0), targets.mean(dim=0)
    centred = main - mean
    damped = centred.T @ centred + 1e-3 * max(1, len(main)) * torch.eye(main.shape[1])
    weights = sharpness * torch.linalg.solve(damped, centred.T @ (targets - share)).T
    usual = torch.logit(share.clamp(1e-3, 1.0 - 1e-3)) - 0.5
    return weights, usual - weights @ mean
