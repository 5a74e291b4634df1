"""How an evaluation is made."""

from __future__ import annotations

from dataclasses import dataclass

from prescope.formulation.checks import require_finite, require_int

BASELINES = ("popularity", "previous-step", "moving-average", "token-table", "stale-gate", "ridge")
POLICIES = ("presched", "dp", "expected")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateSettings:
    """What is asked, on what, and which machine the planners have.

    Parameters
    ----------
    horizons
        Layers ahead that are asked for at every gate.
    batches
        Sequences stepped together.
    max_steps
        Decode steps of each batch size that are judged.
    baselines
        Predictors shown beside: names, or ``"kind:FOLDER"`` of trained ones.
    preset
        Costs ``"model@machine"`` that the planners work with, for the trace's number of layers.
    plan_steps
        Steps of each batch size that are planned; 0 plans none.
    policies
        Gate policies that plan with the forecasts.
    slots, resident_fraction
        Buffers for copies, and the share of the most popular experts that stays on the device.
    charge
        Whether the measured time of the predictor is charged to the host.
    seed
        Of the division into sequences where the predictor brings none.
    """

    horizons: int = 6
    batches: tuple[int, ...] = (8, 32)
    max_steps: int = 150
    baselines: tuple[str, ...] = BASELINES
    preset: str = "qwen3-30b-a3b@a100-pcie4"
    plan_steps: int = 12
    policies: tuple[str, ...] = POLICIES
    slots: int = 8
    resident_fraction: float = 0.25
    charge: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        require_int("horizons", self.horizons, 1)
        require_int("max_steps", self.max_steps, 1)
        require_int("plan_steps", self.plan_steps, 0)
        require_int("slots", self.slots, 1)
        require_finite("resident_fraction", self.resident_fraction, 0.0)
        if not self.batches:
            raise ValueError("expected at least one batch size, got none")
        for batch in self.batches:
            require_int("batch", batch, 1)
        named = {name for name in self.baselines if ":" not in name}
        if unknown := sorted(named - set(BASELINES)):
            raise ValueError(
                f"expected baselines among {', '.join(BASELINES)}, or KIND:FOLDER, got {', '.join(unknown)}"
            )
