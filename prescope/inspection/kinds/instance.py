"""An instance as a view: its demand, without a timeline."""

from __future__ import annotations

from pathlib import Path

from prescope.formulation import Instance
from prescope.inspection.view import LayerMap, View, ViewKind
from prescope.instances import read_instance


def instance_view(path: Path) -> View:
    """View of an instance file; raises `InstanceFileError` like `read_instance`."""
    file = read_instance(path)
    instance, bounds = file.instance, file.bounds
    counts = instance.demand.counts
    return View(
        kind=ViewKind.INSTANCE,
        path=str(path),
        title=instance.name,
        facts={
            "instance": instance.name,
            "layers": instance.layers,
            "experts": instance.experts,
            "tokens": instance.demand.batch_tokens,
            "activated": int((counts > 0).sum()),
            "residents": sum(map(len, instance.residents)),
            "slots": instance.slots,
            "lookahead": instance.lookahead,
            "tier": instance.tier.value,
            "host_computes": instance.host_computes,
            "lower_bound_ns": bounds.lower_bound_ns,
            "optimum_ns": bounds.optimum_ns,
        },
        provenance={
            "costs": instance.costs.source,
            "source": file.provenance.source,
            "made by": f"{file.provenance.generator or 'hand'} ({file.provenance.created_by})",
            "sha256": file.sha256,
        },
        instance=instance,
        maps=demand_maps(instance),
    )


def demand_maps(instance: Instance) -> tuple[LayerMap, ...]:
    """True demand, and what was predicted of it at the gate before."""
    maps = [
        LayerMap(
            name="tokens",
            about="tokens that each expert gets",
            values=instance.demand.counts.astype("float64"),
        )
    ]
    if instance.predicted is not None:
        maps.append(
            LayerMap(
                name="probability",
                about=f"how likely it was to get any, said at the gate before by {instance.predicted.source}",
                values=instance.predicted.probabilities[0],
            )
        )
    return tuple(maps)
