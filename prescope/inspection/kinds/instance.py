"""An instance as a view: its demand, without a timeline."""

from __future__ import annotations

from pathlib import Path

from prescope.formulation import Instance
from prescope.inspection.view import LayerMap, View, ViewKind, ViewTable
from prescope.instances import InstanceFile, read_instance


def instance_view(path: Path) -> View:
    """View of an instance file; raises `InstanceFileError` like `read_instance`."""
    return file_view(str(path), read_instance(path))


def file_view(path: str, file: InstanceFile) -> View:
    """View of an instance that was read from there."""
    instance, bounds = file.instance, file.bounds
    counts = instance.demand.counts
    return View(
        kind=ViewKind.INSTANCE,
        path=path,
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
        tables=(_layers(instance),),
        maps=demand_maps(instance),
    )


def _layers(instance: Instance) -> ViewTable:
    """What every layer asks for, and what one expert costs."""
    counts, costs = instance.demand.counts, instance.costs
    rows = []
    for layer, row in enumerate(counts):
        active = {int(expert) for expert in row.nonzero()[0]}
        mean = round(int(row.sum()) / len(active)) if active else 0
        rows.append(
            (
                layer,
                len(active),
                int(row.max()),
                len(active & set(instance.residents[layer])),
                costs.dense_ns(layer, instance.demand.batch_tokens),
                costs.copy_ns(layer),
                costs.gpu_ns(layer, mean) if active else None,
                costs.cpu_ns(layer, mean) if active and instance.host_computes else None,
            )
        )
    return ViewTable(
        title="layers (an expert with the mean of tokens)",
        columns=("layer", "activated", "most_tokens", "resident", "dense_ns", "copy_ns", "gpu_ns", "cpu_ns"),
        rows=tuple(rows),
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
