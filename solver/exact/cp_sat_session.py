"""The unrestricted CP-SAT model, solved once or again and again with its model patched."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter_ns
from typing import TYPE_CHECKING

from prescope.formulation.evaluator import makespan_ns
from prescope.formulation.infeasible import InfeasiblePlanError
from prescope.formulation.instance import Instance
from prescope.formulation.models.cp_sat_model import CpSatModel, build_cp_sat_model
from prescope.formulation.models.cp_sat_shape import shape_of
from prescope.formulation.plan import Plan
from prescope.formulation.workload import workload
from prescope.solver.base import Draft
from prescope.solver.bound import lower_bound
from prescope.solver.errors import SolverError
from prescope.solver.exact.cp_sat_run import CpSatRun, run_cp_sat
from prescope.solver.exact.engine import EngineLimits
from prescope.solver.exact.first_plan import FirstPlan, first_plan
from prescope.solver.exact.room import roomy_shape
from prescope.solver.result import Limits, RebuildReason
from prescope.solver.trajectory import Incumbent, improving_bounds, improving_incumbents

if TYPE_CHECKING:
    from prescope.solver.methods.cp_sat import CpSat


class CpSatSession:
    """Keeps the model between solves.

    Parameters
    ----------
    settings
        Of the method.
    keep_room
        Build models with room for more experts than the instance at hand has.
    """

    def __init__(self, settings: CpSat, *, keep_room: bool = True) -> None:
        self._settings, self._keep_room = settings, keep_room
        self._model: CpSatModel | None = None

    @property
    def name(self) -> str:
        """The method's."""
        return self._settings.name

    @property
    def model(self) -> CpSatModel | None:
        """The model as it stands, to look at."""
        return self._model

    def plan(self, instance: Instance, *, limits: Limits, seed: int, hint: Plan | None) -> Draft:
        """Plan a batch, see `prescope.solver.methods.cp_sat.CpSat`."""
        begin = perf_counter_ns()
        settings = self._settings
        first = first_plan(
            instance,
            start=settings.start,
            planner=settings.planner,
            limits=limits,
            seed=seed,
            hint=hint,
            begin_ns=begin,
        )
        bound_ns = 0
        if first.plan is not None and settings.known_bound:
            bound_ns = lower_bound(instance, upper_ns=first.makespan_ns)
        work = settings.deterministic_time if limits.deterministic_time is None else limits.deterministic_time
        parameters = (
            ("deterministic_time", str(work)),
            ("start", settings.start.value),
            ("symmetry", str(settings.symmetry).lower()),
            ("known_bound", str(settings.known_bound).lower()),
        )
        if settings.known_bound and bound_ns == first.makespan_ns:
            return Draft(
                plan=first.plan,
                parameters=parameters,
                proved_bound_ns=bound_ns,
                statistics=replace(first.statistics, start_makespan_ns=first.makespan_ns, branches=0),
                incumbents=first.incumbents,
            )
        building = perf_counter_ns()
        reason = self._load(instance, first.horizon_ns, bound_ns)
        assert self._model is not None
        if first.plan is not None:
            self._model.add_hint(first.plan)
        solving = perf_counter_ns()
        engine_limits = EngineLimits(
            wall_ns=limits.wall_ns, deterministic_time=work, workers=limits.workers, seed=seed
        )
        run = run_cp_sat(self._model.model, engine_limits, hinted=first.plan is not None, name=instance.name)
        best, incumbents = self._best(instance, first, run, solving - begin)
        if bound_ns == 0:
            bound_ns = lower_bound(instance, upper_ns=None if best is None else makespan_ns(instance, best))
        return Draft(
            plan=best,
            parameters=parameters,
            proved_bound_ns=max(bound_ns, run.bound),
            statistics=replace(
                first.statistics,
                start_makespan_ns=first.makespan_ns,
                branches=run.solver.num_branches,
                conflicts=run.solver.num_conflicts,
                deterministic_time=float(run.solver.response_proto.deterministic_time),
                proved_bound_ns=run.bound,
                start_accepted=run.start_accepted,
                patched=reason is None,
                rebuilt=reason,
                model_time_ns=solving - building,
            ),
            incumbents=incumbents,
            bounds=improving_bounds(
                [replace(bound, time_ns=bound.time_ns + solving - begin) for bound in run.bounds]
            ),
        )

    def _load(self, instance: Instance, horizon_ns: int, bound_ns: int) -> RebuildReason | None:
        """Patch the model or build it; returns why it was built."""
        reason = self._why_not_patch(instance)
        if reason is None and self._model is not None:
            self._model.write(instance, horizon_ns=horizon_ns, lower_bound_ns=bound_ns)
            return None
        symmetry = self._settings.symmetry
        shape = (
            roomy_shape(workload(instance), instance.experts, symmetry=symmetry) if self._keep_room else None
        )
        self._model = build_cp_sat_model(
            instance, horizon_ns=horizon_ns, lower_bound_ns=bound_ns, symmetry=symmetry, shape=shape
        )
        return reason

    def _why_not_patch(self, instance: Instance) -> RebuildReason | None:
        if self._model is None:
            return RebuildReason.FIRST
        work, shape = workload(instance), self._model.layout.shape
        wanted = shape_of(work)
        if len(wanted.missing) != len(shape.missing):
            return RebuildReason.LAYERS
        if wanted.lookahead != shape.lookahead:
            return RebuildReason.LOOKAHEAD
        if wanted.predicts != shape.predicts:
            return RebuildReason.PREDICTION
        return None if shape.has_room(work) else RebuildReason.CAPACITY

    def _best(
        self, instance: Instance, first: FirstPlan, run: CpSatRun, offset_ns: int
    ) -> tuple[Plan | None, tuple[Incumbent, ...]]:
        """The better of the first plan and the solver's, and all incumbents."""
        if not run.found:
            return first.plan, first.incumbents
        assert self._model is not None
        found = self._model.read_plan(run.solver)
        try:
            found_ns = makespan_ns(instance, found)
        except InfeasiblePlanError as error:
            raise SolverError(f"CP-SAT's plan for {instance.name} is infeasible: {error}") from error
        if found_ns > run.solver.objective_value:
            raise SolverError(
                f"expected CP-SAT's plan for {instance.name} to end by {run.solver.objective_value} ns, "
                f"got {found_ns}"
            )
        shifted = [replace(one, time_ns=one.time_ns + offset_ns) for one in run.incumbents]
        shifted.append(replace(shifted[-1], makespan_ns=found_ns))
        incumbents = improving_incumbents([*first.incumbents, *shifted])
        if first.makespan_ns is not None and first.makespan_ns <= found_ns:
            return first.plan, incumbents
        return found, incumbents
