"""What is compared, under which conditions."""

from __future__ import annotations

from dataclasses import dataclass

from prescope.compare.names import check_names
from prescope.formulation.checks import require_int

DEFAULT_POLICIES = ("on-demand", "cpu-only", "intra-layer", "presched", "dp")
BACKENDS = ("cpu", "sim")
# Policies are compared with residents that stay, unless somebody asks.
DEFAULT_RETENTION = "static"
DEFAULT_PRESET = "qwen3-30b-a3b@a100-pcie4"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareSettings:
    """Conditions that all policies share.

    Parameters
    ----------
    policies
        Names, in the order of the table.
    preset
        Cost model ``model@machine``.
    backend
        ``"cpu"`` executes in slow motion, ``"sim"`` in virtual time.
    retentions
        Rules by which residents change from step to step (`prescope.runtime.plugin.retentions`); every policy
        is run under each.
    predictor
        Name of the predictor of causal runs.
    clairvoyant
        Record the routing in a first pass and plan every step with it known.
    new_tokens
        Tokens to generate for every prompt.
    resident_share
        Share of all experts pinned in device memory, 0 to 1, chosen by popularity on other prompts.
    slots
        Buffers for copies, apart from the residents.
    lookahead
        Layers ahead that copies may be issued; ``None`` leaves it to `prescope.attach`.
    seed
        Seed of whatever uses chance.
    dilation
        Real time per modelled time on the cpu backend; ``None`` measures what this machine needs.
    time_budget_s
        Real time that executing may take on the cpu backend, which then runs less slowly than this machine
        would need; ``None`` takes as long as it takes.
    """

    policies: tuple[str, ...] = DEFAULT_POLICIES
    preset: str = DEFAULT_PRESET
    backend: str = "cpu"
    retentions: tuple[str, ...] = (DEFAULT_RETENTION,)
    predictor: str = "stale-gate"
    clairvoyant: bool = False
    new_tokens: int = 8
    resident_share: float = 0.25
    slots: int = 8
    lookahead: int | None = None
    seed: int = 0
    dilation: float | None = None
    time_budget_s: float | None = None

    def __post_init__(self) -> None:
        require_int("new_tokens", self.new_tokens, 1)
        require_int("slots", self.slots, 0)
        require_int("seed", self.seed, 0)
        if self.lookahead is not None:
            require_int("lookahead", self.lookahead, 0)
        for what, names in (("policies", self.policies), ("retentions", self.retentions)):
            if not names or len(set(names)) != len(names):
                got = ", ".join(names) or "none"
                raise ValueError(f"expected distinct {what}, at least one, got {got}")
        if not 0 <= self.resident_share <= 1:
            raise ValueError(f"expected resident_share in [0, 1], got {self.resident_share}")
        if self.backend not in BACKENDS:
            raise ValueError(f"expected a backend among {', '.join(BACKENDS)}, got {self.backend!r}")
        if self.time_budget_s is not None and not self.time_budget_s > 0:
            raise ValueError(f"expected time_budget_s > 0, got {self.time_budget_s}")
        if self.dilation is not None and not self.dilation >= 1:
            raise ValueError(f"expected dilation >= 1, got {self.dilation}")
        check_names(
            policies=self.policies,
            retentions=self.retentions,
            predictor=self.predictor,
            preset=self.preset,
            clairvoyant=self.clairvoyant,
        )
