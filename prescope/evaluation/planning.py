"""What forecasts are worth to a planner: realised makespans, and what became of the copies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from prescope.evaluation.settings import EvaluateSettings
from prescope.formulation import Instance, Plan, PredictedDemand, evaluate, makespan_ns, preset
from prescope.formulation.demand import FloatArray
from prescope.instances import BatchStep, choose_residents

NO_PREFETCH, CLAIRVOYANT = "intra-layer", "clairvoyant"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRow:
    """A policy with a predictor over some steps, all sums; makespans are the exact evaluator's.

    Parameters
    ----------
    batch, steps
        Sequences at once, and steps planned.
    policy, predictor
        Who decided, and on whose forecasts.
    realised_ns
        Makespan of what was done, true demand showing gate by gate.
    no_prefetch_ns
        Makespan of the same policy family without any prefetch: ``intra-layer``.
    clairvoyant_ns
        Makespan when the demand of the whole step is planned knowing it.
    useful, wasted, late
        Prefetches that were there in time for an expert that ran on them, that were not used, and that came
        after the gate.
    moved_bytes, wasted_bytes
        Bytes of all copies, and of the wasted prefetches.
    """

    batch: int
    steps: int
    policy: str
    predictor: str
    realised_ns: int
    no_prefetch_ns: int
    clairvoyant_ns: int
    useful: int
    wasted: int
    late: int
    moved_bytes: int
    wasted_bytes: int

    @property
    def gain(self) -> float:
        """Time saved against no prefetching, as a share of that."""
        return 1.0 - self.realised_ns / self.no_prefetch_ns

    @property
    def share(self) -> float | None:
        """Part of the clairvoyant gain that was reached; ``None`` where there is none."""
        most = self.no_prefetch_ns - self.clairvoyant_ns
        return (self.no_prefetch_ns - self.realised_ns) / most if most > 0 else None


class Planner:
    """Plans steps of one batch size with the forecasts of several predictors.

    Parameters
    ----------
    settings
        Machine and policies.
    batch
        Sequences at once.
    popularity
        Chooses the residents, ``[layers, experts]``.
    """

    def __init__(self, settings: EvaluateSettings, *, batch: int, popularity: FloatArray) -> None:
        self._settings, self._batch = settings, batch
        self._preset = preset(settings.preset, layers=popularity.shape[0])
        self._residents = choose_residents(popularity, fraction=settings.resident_fraction)
        self._bounds: dict[int, tuple[int, int]] = {}

    def rows(
        self,
        predictor: str,
        kept: Sequence[tuple[BatchStep, PredictedDemand]],
        *,
        prediction_ns: int = 0,
    ) -> list[PlanRow]:
        """One row per policy.

        Parameters
        ----------
        predictor
            Name.
        kept
            Steps with forecasts.
        prediction_ns
            What a prediction takes on the host after each gate.
        """
        from prescope.runtime.control import realise

        rows = []
        for policy in self._settings.policies:
            done = []
            for step, predicted in kept:
                instance = self._instance(step, predicted, prediction_ns)
                done.append((instance, realise(instance, policy)))
            bounds = [self._bound(step) for step, _ in kept]
            rows.append(
                PlanRow(
                    batch=self._batch,
                    steps=len(kept),
                    policy=policy,
                    predictor=predictor,
                    realised_ns=sum(makespan_ns(instance, plan) for instance, plan in done),
                    no_prefetch_ns=sum(one for one, _ in bounds),
                    clairvoyant_ns=sum(best for _, best in bounds),
                    **_copies(done),
                )
            )
        return rows

    def _instance(self, step: BatchStep, predicted: PredictedDemand | None, prediction_ns: int) -> Instance:
        layers = step.demand.layers
        return Instance(
            name=f"step-{step.step}",
            costs=self._preset.costs,
            demand=step.demand,
            residents=self._residents,
            slots=self._settings.slots,
            lookahead=min(self._settings.horizons, layers),
            tier=self._preset.tier,
            host_computes=self._preset.host_computes,
            predicted=predicted,
            prediction_ns=(prediction_ns,) * layers if prediction_ns else (),
        )

    def _bound(self, step: BatchStep) -> tuple[int, int]:
        """Makespans without prefetch and with the demand known; the same for all predictors."""
        from prescope.runtime.control import realise
        from prescope.solver import solve

        if step.step not in self._bounds:
            bare = self._instance(step, None, 0)
            blind = self._instance(step, truth_of(step, 1), 0)
            known = solve(bare, method="dp")
            if known.makespan_ns is None:
                raise ValueError(f"expected a plan of step {step.step} with its demand known, got none")
            self._bounds[step.step] = makespan_ns(blind, realise(blind, NO_PREFETCH)), known.makespan_ns
        return self._bounds[step.step]


def truth_of(step: BatchStep, horizons: int) -> PredictedDemand:
    """What an oracle would say of a step."""
    counts = step.demand.counts.astype(float)
    many = counts[None].repeat(min(horizons, counts.shape[0]), axis=0)
    return PredictedDemand(probabilities=(many > 0).astype(float), expected_tokens=many, source="oracle")


def _copies(done: Iterable[tuple[Instance, Plan]]) -> dict[str, int]:
    from prescope.runtime.plugin.step_report import copy_worth

    useful = wasted = late = moved = lost = 0
    for instance, plan in done:
        worth = copy_worth(instance, plan, evaluate(instance, plan))
        useful += worth.prefetch_useful
        wasted += worth.prefetch_wasted
        late += worth.prefetch_late
        sizes = instance.costs.expert_bytes
        moved += sum(sizes[copy.layer % len(sizes)] for copy in plan.transfers)
        used = {(layer, expert) for layer, row in enumerate(plan.layers) for expert in row.gpu}
        lost += sum(
            sizes[copy.layer % len(sizes)] for copy in plan.transfers if (copy.layer, copy.expert) not in used
        )
    return {
        "useful": useful,
        "wasted": wasted,
        "late": late,
        "moved_bytes": moved,
        "wasted_bytes": lost,
    }
