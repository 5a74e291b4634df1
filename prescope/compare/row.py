"""What a comparison says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prescope.instances import Recording
    from prescope.runtime.plugin import Totals


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Row:
    """One policy's cost over all steps, in modelled nanoseconds.

    Parameters
    ----------
    policy, retention, predictor
        Names; ``"static"`` residents stay, and the predictor is ``"oracle"`` in clairvoyant runs.
    batch
        Prompts generated for at once.
    link_bytes_per_s
        Bandwidth of the copy path.
    tokens_equal
        Whether it generated the stock model's tokens at every real position.
    new_tokens
        Tokens generated, finished rows not counted further.
    totals, prefill, decode
        Sums over all steps, and over those of either phase.
    dilation
        Real time per modelled time of this run; 1 in virtual time.
    refused
        Why the executed time must not be quoted; ``None`` when it may be.
    degraded
        What did not run as planned, in words.
    recording
        The steps in full, the newest of a long run.
    """

    policy: str
    retention: str
    predictor: str
    batch: int
    link_bytes_per_s: int
    tokens_equal: bool
    new_tokens: int
    totals: Totals
    prefill: Totals
    decode: Totals
    dilation: float
    refused: str | None
    degraded: tuple[str, ...]
    recording: Recording

    @property
    def label(self) -> str:
        """The policy, with the rule for its residents unless they stay."""
        return self.policy if self.retention == "static" else f"{self.policy}, {self.retention}"

    @property
    def file_label(self) -> str:
        """The same for names of files: whatever may not be in one is a dash."""
        return re.sub(r"[^\w.+-]+", "-", self.label)

    @property
    def simulated_ns(self) -> int:
        """Simulated time of all steps.

        Raises
        ------
        ValueError
            When a step has none, as where experts are on disk and all times are measured.
        """
        if self.totals.simulated_ns is None:
            raise ValueError("expected steps with a simulated time, got some without")
        return self.totals.simulated_ns

    @property
    def executed_ns(self) -> int | None:
        """Executed time where it may be quoted."""
        return None if self.refused else self.totals.executed_ns

    @property
    def tokens_per_s(self) -> float | None:
        """Generated tokens per modelled second, prefill included; executed if quotable, else simulated."""
        time_ns = self.executed_ns or self.simulated_ns
        return self.new_tokens / time_ns * 1e9 if time_ns else None

    def document(self) -> dict[str, Any]:
        """The row for ``--json`` (docs/json.md)."""
        totals = self.totals
        return {
            "policy": self.policy,
            "retention": self.retention,
            "predictor": self.predictor,
            "batch": self.batch,
            "link": self.link_bytes_per_s,
            "tokens_equal": self.tokens_equal,
            "planned_ns": totals.planned_ns,
            "simulated_ns": self.simulated_ns,
            "executed_ns": self.executed_ns,
            "violations": sum(totals.violations.values()),
            "bytes_moved": totals.bytes_moved,
            "hit_rate": totals.hit_rate,
            "exchanges": totals.exchanges,
            "prefetch": {
                "useful": totals.prefetch_useful,
                "wasted": totals.prefetch_wasted,
                "late": totals.prefetch_late,
            },
            "tokens_per_s": self.tokens_per_s,
            "new_tokens": self.new_tokens,
            "gpu_share": totals.gpu_share,
            "plan_ns": totals.plan_ns,
            "dilation": self.dilation,
            "violations_by_kind": dict(totals.violations),
            "violation_share": totals.violation_share,
            "refused": self.refused,
            "degraded": list(self.degraded),
            "phases": {"prefill": _phase(self.prefill), "decode": _phase(self.decode)},
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Comparison:
    """All policies on the same prompts.

    Parameters
    ----------
    model, preset, backend, clairvoyant
        What ran, on which cost model, how, and whether demand was known beforehand.
    dilation
        Largest dilation of any row; 1 in virtual time.
    expert_memory_bytes
        Device memory for experts that every policy had, in the model's own bytes.
    residents, slots, experts
        Pinned experts and copy buffers in it, and how many experts there are in all layers.
    prompts, continuations
        Texts, and what the stock model generated for them.
    rows
        One per policy.
    """

    model: str
    preset: str
    backend: str
    clairvoyant: bool
    dilation: float
    expert_memory_bytes: int
    residents: int
    slots: int
    experts: int
    prompts: tuple[str, ...]
    continuations: tuple[str, ...]
    rows: tuple[Row, ...]

    def document(self) -> dict[str, Any]:
        """The comparison for ``--json`` (docs/json.md)."""
        return {
            "model": self.model,
            "preset": self.preset,
            "dilation": self.dilation,
            "backend": self.backend,
            "clairvoyant": self.clairvoyant,
            "expert_memory_bytes": self.expert_memory_bytes,
            "residents": self.residents,
            "slots": self.slots,
            "experts": self.experts,
            "rows": [row.document() for row in self.rows],
        }


def _phase(totals: Totals) -> dict[str, Any]:
    return {
        "steps": totals.steps,
        "tokens": totals.tokens,
        "planned_ns": totals.planned_ns,
        "simulated_ns": totals.simulated_ns,
        "executed_ns": totals.executed_ns,
    }
