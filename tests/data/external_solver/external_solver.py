"""Two planning methods: one that works, one that breaks on large batches."""

from prescope.formulation import LayerPlan, Plan, Transfer
from prescope.solver import Draft


class Streamer:
    """Copies every missing expert, in order of its number."""

    name = "streamer"

    def plan(self, instance, *, limits, seed, hint):
        """Plan a batch; limits, seed and hint change nothing."""
        layers, transfers = [], []
        for layer, counts in enumerate(instance.demand.counts):
            active = counts.nonzero()[0].tolist()
            layers.append(LayerPlan(gpu=tuple(active)))
            transfers += [
                Transfer(layer=layer, expert=expert)
                for expert in active
                if expert not in instance.residents[layer]
            ]
        return Draft(plan=Plan(layers=tuple(layers), transfers=tuple(transfers)))


class Moody(Streamer):
    """Breaks on batches of more than eight tokens."""

    name = "moody"

    def plan(self, instance, *, limits, seed, hint):
        """Plan a batch of at most eight tokens."""
        if instance.demand.batch_tokens > 8:
            raise RuntimeError("too many\ntokens, I am tired")
        return super().plan(instance, limits=limits, seed=seed, hint=hint)


MOODY = Moody()
