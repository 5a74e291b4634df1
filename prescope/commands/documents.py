"""Plans and instances as plain objects for ``--json`` (docs/json.md)."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prescope.formulation import Plan
    from prescope.instances import HorizonFile, InstanceFile


def plan_document(plan: Plan) -> dict[str, Any]:
    """A plan, laid out as in a plan file."""
    return {
        "layers": [{"gpu": list(layer.gpu), "cpu": list(layer.cpu)} for layer in plan.layers],
        "transfers": [[copy.layer, copy.expert, copy.slot, copy.gate] for copy in plan.transfers],
        "info": {**asdict(plan.info), "parameters": [list(pair) for pair in plan.info.parameters]},
    }


def instance_document(file: InstanceFile) -> dict[str, Any]:
    """What an instance is, without its token counts."""
    instance = file.instance
    counts = instance.demand.counts
    return {
        "name": instance.name,
        "layers": instance.layers,
        "experts": instance.experts,
        "tokens": instance.demand.batch_tokens,
        "activated": int((counts > 0).sum()),
        "residents": sum(len(row) for row in instance.residents),
        "slots": instance.slots,
        "lookahead": instance.lookahead,
        "tier": instance.tier.value,
        "host_computes": instance.host_computes,
        "expert_bytes": list(instance.costs.expert_bytes),
        "link_bytes_per_s": instance.costs.link.bytes_per_s,
        "costs_source": instance.costs.source,
        "predicted_by": None if instance.predicted is None else instance.predicted.source,
        "bounds": asdict(file.bounds),
        "provenance": asdict(file.provenance),
        "sha256": file.sha256,
    }


def require_recording(path: Path) -> None:
    """Refuse a place where no recording can be written, before the work that it would hold.

    Raises
    ------
    ValueError
        When the name has another ending than ``.json`` or ``.json.gz``, or the folder does not exist.
    """
    if not path.name.endswith((".json", ".json.gz")):
        raise ValueError(f"expected --recording with a name ending in .json or .json.gz, got {path}")
    if not path.parent.is_dir():
        raise ValueError(
            f"expected the folder {path.parent} of --recording to exist, got none; make it first"
        )


def horizon_document(file: HorizonFile) -> dict[str, Any]:
    """What a horizon is, without its token counts."""
    horizon = file.horizon
    return {
        "name": horizon.name,
        "steps": horizon.steps,
        "layers": horizon.layers,
        "experts": horizon.experts,
        "tokens": [demand.batch_tokens for demand in horizon.demands],
        "activated": sum(int((demand.counts > 0).sum()) for demand in horizon.demands),
        "residents": sum(len(row) for row in horizon.residents),
        "slots": horizon.slots,
        "lookahead": horizon.lookahead,
        "tier": horizon.tier.value,
        "host_computes": horizon.host_computes,
        "expert_bytes": list(horizon.costs.expert_bytes),
        "link_bytes_per_s": horizon.costs.link.bytes_per_s,
        "costs_source": horizon.costs.source,
        "predicted_by": horizon.predicted[0].source if horizon.predicted else None,
        "history_steps": sum(len(sequence) for sequence in horizon.history),
        "bounds": asdict(file.bounds),
        "provenance": asdict(file.provenance),
        "sha256": file.sha256,
    }
