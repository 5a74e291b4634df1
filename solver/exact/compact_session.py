"""A compact model in a general solver, solved once or again and again with its model patched."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter_ns
from typing import TYPE_CHECKING

import numpy as np

from prescope.formulation.demand import FloatArray, IntArray
from prescope.formulation.evaluator import makespan_ns
from prescope.formulation.instance import Instance
from prescope.formulation.models.compact_model import CompactModel, compact_model
from prescope.formulation.models.copy_counts import (
    clip_counts,
    columns_of_counts,
    read_counts,
    schedule_counts,
)
from prescope.formulation.models.layer_functions import LayerFunctions, Tables, layer_functions
from prescope.formulation.plan import Plan
from prescope.formulation.workload import Workload, layer_tables, workload
from prescope.solver.base import Draft
from prescope.solver.bound import lower_bound
from prescope.solver.build_plan import build_plan
from prescope.solver.descent import LEVELS, descend
from prescope.solver.exact.engine import EngineAnswer, EngineLimits, EngineSession
from prescope.solver.exact.engines import default_engine, get_engine
from prescope.solver.exact.first_plan import first_plan
from prescope.solver.exact.room import roomy
from prescope.solver.result import Limits, RebuildReason
from prescope.solver.simulate import Choice, choose_heaviest, new_choice, new_track, simulate
from prescope.solver.trajectory import Incumbent, ProvedBound, improving_bounds, improving_incumbents

if TYPE_CHECKING:
    from prescope.solver.methods.milp import Milp


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Loaded:
    """An instance as the compact model sees it."""

    work: Workload
    functions: tuple[LayerFunctions, ...]
    demoted: IntArray
    model: CompactModel
    counts: list[int] | None
    reason: RebuildReason | None


class CompactSession:
    """Keeps the model, and what the engine keeps with it, between solves.

    Parameters
    ----------
    settings
        Of the method.
    keep_room
        Build models with room for more copies than the instance at hand may make.
    """

    def __init__(self, settings: Milp, *, keep_room: bool = True) -> None:
        self._settings, self._keep_room = settings, keep_room
        self._engine_name = settings.engine or default_engine()
        self._model: CompactModel | None = None
        self._lookahead = -1
        self._session: EngineSession | None = None
        self._seen: tuple[int, Choice] | None = None

    @property
    def name(self) -> str:
        """The method's."""
        return self._settings.name

    @property
    def model(self) -> CompactModel | None:
        """The model as it stands, to look at."""
        return self._model

    def close(self) -> None:
        """Free what the engine holds."""
        if self._session is not None:
            self._session.close()
        self._session = self._model = None

    def plan(self, instance: Instance, *, limits: Limits, seed: int, hint: Plan | None) -> Draft:
        """Plan a batch, see `prescope.solver.methods.milp.Milp`."""
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
        known = 0
        if first.plan is not None and settings.known_bound:
            known = lower_bound(instance, upper_ns=first.makespan_ns)
            if known == first.makespan_ns:
                return Draft(
                    plan=first.plan,
                    parameters=self._parameters(),
                    proved_bound_ns=known,
                    statistics=replace(first.statistics, start_makespan_ns=first.makespan_ns, branches=0),
                    incumbents=first.incumbents,
                )
        building = perf_counter_ns()
        loaded = self._load(instance, first.plan)
        begun = perf_counter_ns()
        answer = self._solve(loaded, instance, limits, seed)
        found, found_ns = self._read(instance, loaded, answer)
        end = perf_counter_ns() - begin
        best = first.plan
        incumbents = [*first.incumbents]
        incumbents += [replace(one, time_ns=one.time_ns + begun - begin) for one in answer.incumbents]
        if found is not None and found_ns is not None:
            incumbents.append(Incumbent(time_ns=end, makespan_ns=found_ns))
            if first.makespan_ns is None or found_ns < first.makespan_ns:
                best = found
        proved = answer.bound if self._is_valid(loaded) else None
        reached = [one.makespan_ns for one in incumbents]
        if known == 0:
            known = lower_bound(instance, upper_ns=min(reached, default=None))
        return Draft(
            plan=best,
            parameters=self._parameters(),
            proved_bound_ns=known if proved is None else max(known, proved),
            statistics=replace(
                first.statistics,
                start_makespan_ns=first.makespan_ns,
                branches=answer.nodes,
                deterministic_time=answer.deterministic_time,
                proved_bound_ns=proved,
                start_accepted=answer.start_accepted,
                patched=loaded.reason is None,
                rebuilt=loaded.reason,
                model_time_ns=begun - building,
            ),
            incumbents=improving_incumbents(incumbents),
            bounds=self._bounds(answer, proved, begun - begin, end),
        )

    def _load(self, instance: Instance, plan: Plan | None) -> _Loaded:
        """Patch the model or build it."""
        settings, work = self._settings, workload(instance)
        functions = layer_functions(work, settings.tables)
        link = {"lookahead": int(work.lookahead), "link_ready_ns": int(work.link_ready_ns)}
        counts = None if plan is None else clip_counts(functions, _copies(instance, plan))
        # Some counts' own value bounds the horizon: the model has a solution whatever the tables are.
        known = counts or [one.most for one in functions]
        horizon_ns = schedule_counts(functions, known, **link)[0][-1]
        reason = self._why_not_patch(functions, int(work.lookahead))
        width = self._model.width if reason is None and self._model is not None else None
        if width is None and self._keep_room:
            width = (roomy(max(one.most for one in functions), instance.experts),) * len(functions)
        model = compact_model(
            functions, form=settings.form, horizon_ns=horizon_ns, width=width, name=instance.name, **link
        )
        if reason is None and self._session is not None and not self._session.patch(model.linear):
            reason = RebuildReason.ENGINE
        if reason is not None:
            self.close()
            self._session = get_engine(self._engine_name).open(model.linear)
        self._model, self._lookahead = model, int(work.lookahead)
        return _Loaded(
            work=work,
            functions=functions,
            demoted=layer_tables(work).demoted,
            model=model,
            counts=counts,
            reason=reason,
        )

    def _why_not_patch(self, functions: tuple[LayerFunctions, ...], lookahead: int) -> RebuildReason | None:
        if self._model is None:
            return RebuildReason.FIRST
        if len(functions) != len(self._model.width):
            return RebuildReason.LAYERS
        if lookahead != self._lookahead:
            return RebuildReason.LOOKAHEAD
        fits = all(one.most <= room for one, room in zip(functions, self._model.width, strict=True))
        return None if fits else RebuildReason.CAPACITY

    def _solve(self, loaded: _Loaded, instance: Instance, limits: Limits, seed: int) -> EngineAnswer:
        settings, work = self._settings, loaded.work
        start = None
        if loaded.counts is not None:
            start = columns_of_counts(
                loaded.model,
                loaded.functions,
                loaded.counts,
                lookahead=int(work.lookahead),
                link_ready_ns=int(work.link_ready_ns),
            )
        deterministic = limits.deterministic_time
        engine_limits = EngineLimits(
            wall_ns=limits.wall_ns,
            deterministic_time=settings.deterministic_time if deterministic is None else deterministic,
            nodes=settings.nodes,
            workers=limits.workers,
            relative_gap=settings.relative_gap,
            seed=seed,
            relax=settings.relax,
        )
        assert self._session is not None
        self._seen = None
        return self._session.solve(
            engine_limits, start=start, value_of=lambda values: self._worth(loaded, values)
        )

    def _worth(self, loaded: _Loaded, values: FloatArray) -> int:
        """Exact makespan of an incumbent's numbers of copies, without descent; the best one is kept."""
        choice = self._choice(loaded, values)
        worth = int(simulate(loaded.work, choice, int(loaded.work.lookahead), new_track(loaded.work)))
        if not self._seen or worth < self._seen[0]:
            self._seen = (worth, choice)
        return worth

    def _choice(self, loaded: _Loaded, values: FloatArray) -> Choice:
        counts = clip_counts(loaded.functions, read_counts(loaded.model, values))
        choice = new_choice(loaded.work)
        choose_heaviest(loaded.work, np.array(counts, dtype=np.int64), loaded.demoted, choice)
        return choice

    def _read(
        self, instance: Instance, loaded: _Loaded, answer: EngineAnswer
    ) -> tuple[Plan | None, int | None]:
        """The best incumbent's plan, after a descent, and its exact makespan."""
        if answer.values is None:
            return None, None
        self._worth(loaded, answer.values)
        assert self._seen is not None
        work, choice = loaded.work, self._seen[1]
        if self._settings.descent_effort > 0:
            descend(work, choice, self._settings.descent_effort, LEVELS)
        plan = build_plan(work, choice)
        return plan, makespan_ns(instance, plan)

    def _is_valid(self, loaded: _Loaded) -> bool:
        """Whether the model's optimum is a lower bound of the instance's."""
        if self._settings.tables is Tables.BOUND:
            return True
        return loaded.functions == layer_functions(loaded.work, Tables.BOUND)

    def _bounds(
        self, answer: EngineAnswer, proved: int | None, offset_ns: int, end_ns: int
    ) -> tuple[ProvedBound, ...]:
        if proved is None:
            return ()
        shifted = [replace(bound, time_ns=bound.time_ns + offset_ns) for bound in answer.bounds]
        last = ProvedBound(
            time_ns=end_ns, lower_bound_ns=proved, deterministic_time=answer.deterministic_time
        )
        return improving_bounds([*shifted, last])

    def _parameters(self) -> tuple[tuple[str, str], ...]:
        settings = self._settings
        return (
            ("engine", self._engine_name),
            ("form", settings.form.value),
            ("tables", settings.tables.value),
            ("relax", str(settings.relax).lower()),
            ("start", settings.start.value),
            ("known_bound", str(settings.known_bound).lower()),
        )


def _copies(instance: Instance, plan: Plan) -> list[int]:
    """Missing experts that a plan runs on the device, per layer."""
    return [
        sum(expert not in residents for expert in entry.gpu)
        for entry, residents in zip(plan.layers, map(set, instance.residents), strict=True)
    ]
