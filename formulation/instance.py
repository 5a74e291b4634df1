"""One scheduling problem: a batch's demand on a machine with given residents, slots and lookahead."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from operator import index

from prescope.formulation.checks import require_int
from prescope.formulation.cost_model import CostModel
from prescope.formulation.demand import Demand, PredictedDemand


class Tier(StrEnum):
    """Where expert weights rest when they are not on the device."""

    RAM = "ram"
    DISK = "disk"


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class Instance:
    """A batch to schedule.

    Parameters
    ----------
    name
        Identifier in tables and files.
    costs
        Durations of all operations.
    demand
        True token counts.
    residents
        Per layer, the experts whose weights are pinned on the device for the whole batch.
    slots
        Device buffers for copied experts, apart from the residents. A slot is taken when its copy starts and
        freed when its expert's device work ends.
    lookahead
        A copy for layer ``l`` may start at the gate of layer ``l - lookahead``; at any time when
        ``l < lookahead``; 0 is on-demand.
    tier
        Where the weights rest.
    host_computes
        Whether the host can run experts in place. On the disk tier it cannot.
    link_ready_ns
        The link is busy with an earlier batch's copy until then.
    predicted
        What a predictor said beforehand, for planning under uncertainty.
    prediction_ns
        Per layer, what the predictor's work after its gate takes on the host; empty where it costs nothing.
        The host does it after the layer's experts, beside the device and the link: the layer does not wait
        for it, the host's experts of coming layers do, and so does the end of the batch.
    """

    name: str
    costs: CostModel
    demand: Demand
    residents: tuple[tuple[int, ...], ...]
    slots: int
    lookahead: int
    tier: Tier = Tier.RAM
    host_computes: bool = True
    link_ready_ns: int = 0
    predicted: PredictedDemand | None = None
    prediction_ns: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        require_int("slots", self.slots, 0)
        require_int("lookahead", self.lookahead, 0)
        require_int("link_ready_ns", self.link_ready_ns, 0)
        if self.costs.layers != self.layers:
            raise ValueError(f"expected costs for {self.layers} layers, got {self.costs.layers}")
        if len(self.residents) != self.layers:
            raise ValueError(f"expected residents for {self.layers} layers, got {len(self.residents)}")
        object.__setattr__(self, "residents", tuple(self._checked(row) for row in self.residents))
        if not isinstance(self.tier, Tier):
            raise ValueError(f"expected tier to be one of {', '.join(Tier)}, got {self.tier!r}")
        if self.tier is Tier.DISK and self.host_computes:
            raise ValueError("expected host_computes=False on the disk tier, got True")
        object.__setattr__(self, "prediction_ns", tuple(self.prediction_ns))
        if self.prediction_ns and len(self.prediction_ns) != self.layers:
            raise ValueError(
                f"expected prediction_ns to be empty or for {self.layers} layers, "
                f"got {len(self.prediction_ns)}"
            )
        for duration_ns in self.prediction_ns:
            require_int("prediction_ns", duration_ns, 0)
        if self.predicted is not None:
            shape = self.predicted.probabilities.shape[1:]
            if shape != self.demand.counts.shape:
                raise ValueError(
                    f"expected predictions of shape [horizons, {self.layers}, {self.experts}], got {shape}"
                )
        if not self.host_computes and self.slots == 0:
            self._require_all_resident()

    def _checked(self, row: Iterable[int]) -> tuple[int, ...]:
        try:
            experts = tuple(sorted(index(expert) for expert in row))
        except TypeError:
            raise ValueError(f"expected residents as integers, got {row!r}") from None
        for expert in experts:
            require_int("resident expert", expert, 0, self.experts - 1)
        if len(set(experts)) != len(experts):
            raise ValueError(f"expected distinct residents in a layer, got {experts}")
        return experts

    def _require_all_resident(self) -> None:
        for layer, row in enumerate(self.residents):
            missing = set(self.demand.counts[layer].nonzero()[0].tolist()) - set(row)
            if missing:
                raise ValueError(
                    "expected slots >= 1 where the host cannot compute and an activated expert is missing, "
                    f"got slots=0 with layer {layer} missing experts {sorted(missing)}"
                )

    @property
    def layers(self) -> int:
        """Number of MoE layers."""
        return self.demand.layers

    @property
    def experts(self) -> int:
        """Number of experts per layer."""
        return self.demand.experts
