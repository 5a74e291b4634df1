"""A decision for every activated expert of a batch, and the order of its copies."""

from __future__ import annotations

from dataclasses import dataclass, field

from prescope.formulation.checks import require_int


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerPlan:
    """Where the activated experts of one layer run.

    Parameters
    ----------
    gpu
        Experts computed on the device, in order.
    cpu
        Experts computed in place on the host, in order.
    """

    gpu: tuple[int, ...] = ()
    cpu: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        # Plans are compared and hashed, which lists would spoil.
        object.__setattr__(self, "gpu", tuple(self.gpu))
        object.__setattr__(self, "cpu", tuple(self.cpu))
        for expert in (*self.gpu, *self.cpu):
            if type(expert) is not int or expert < 0:
                require_int("expert", expert, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """One copy of an expert's weights to the device.

    Parameters
    ----------
    layer, expert
        Whose weights.
    slot
        Which device buffer receives them; ``None`` takes whichever is free first.
    gate
        Layer at whose gate the copy was decided and before which it cannot start, -1 for the start of the
        batch; ``None`` is the earliest gate that the instance's lookahead allows.
    """

    layer: int
    expert: int
    slot: int | None = None
    gate: int | None = None

    def __post_init__(self) -> None:
        layer, expert, slot, gate = self.layer, self.expert, self.slot, self.gate
        # Control makes a dozen of them at every gate; nearly all leave here.
        if (
            type(layer) is type(expert) is int
            and layer >= 0
            and expert >= 0
            and (slot is None or (type(slot) is int and slot >= 0))
            and (gate is None or (type(gate) is int and -1 <= gate <= layer))
        ):
            return
        require_int("layer", self.layer, 0)
        require_int("expert", self.expert, 0)
        if self.slot is not None:
            require_int("slot", self.slot, 0)
        if self.gate is not None:
            require_int("gate", self.gate, -1, self.layer)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanInfo:
    """By whom and how a plan was made; ``None`` where it is not known.

    Parameters
    ----------
    method
        Name of the method.
    parameters
        Its settings as ``(name, value)`` pairs of text.
    seed
        Seed it was run with.
    makespan_ns, lower_bound_ns
        What the maker claims; a checker re-evaluates.
    time_ns
        Wall time spent planning.
    """

    method: str = "unnamed"
    parameters: tuple[tuple[str, str], ...] = ()
    seed: int | None = None
    makespan_ns: int | None = None
    lower_bound_ns: int | None = None
    time_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The decisions for one batch.

    Parameters
    ----------
    layers
        One entry per MoE layer.
    transfers
        All copies in link order. A copy whose expert its layer does not run on the device is a dropped
        (wasted) prefetch.
    info
        Who made it.
    """

    layers: tuple[LayerPlan, ...]
    transfers: tuple[Transfer, ...] = ()
    info: PlanInfo = field(default_factory=PlanInfo)

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", tuple(self.layers))
        object.__setattr__(self, "transfers", tuple(self.transfers))
