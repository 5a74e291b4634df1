"""A what-if as a plain object for ``--json`` (docs/json.md)."""

from __future__ import annotations

from typing import Any

from prescope.formulation import Tier
from prescope.whatif.outcome import outcome_row
from prescope.whatif.run import WhatIf
from prescope.whatif.words import sentences


def whatif_document(found: WhatIf) -> dict[str, Any]:
    """Sentences, sweeps with their knees, and all points."""
    chosen = found.settings
    return {
        "machine": found.machine.name,
        "tier": found.machine.tier.value,
        "steps": chosen.steps,
        "warm_steps": chosen.warm,
        "lookahead": chosen.lookahead,
        "overhead_ns": chosen.overhead_ns,
        "seed": chosen.seed,
        "policy": chosen.policy,
        "residency": chosen.residency if found.machine.tier is Tier.DISK else None,
        "same_sequences": found.same,
        "sentences": list(sentences(found)),
        "now": outcome_row(found.now),
        "sweeps": [
            {
                "lever": sweep.lever.value,
                "values": list(sweep.values),
                "tokens_per_s": [one.tokens_per_s for one in sweep.outcomes],
                "p99_ns": [one.p99_ns for one in sweep.outcomes],
                "now": sweep.now,
                "knee": None if sweep.knee is None else sweep.knee.value,
            }
            for sweep in found.sweeps
        ],
        "points": [outcome_row(one) for one in found.outcomes],
    }
