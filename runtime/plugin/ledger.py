"""What an engine's steps were: checked, reported, and the newest kept in full."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from prescope.formulation import Instance, Plan, evaluate
from prescope.formulation.checks import require_int
from prescope.instances import Recording
from prescope.runtime.control.retention import Exchange
from prescope.runtime.happens_before import verify
from prescope.runtime.plugin.report import EngineReport, StepReport
from prescope.runtime.plugin.settings import EngineSettings, StepRecord
from prescope.runtime.plugin.step_recording import recording_of
from prescope.runtime.plugin.step_report import step_report
from prescope.runtime.program import Program
from prescope.runtime.trace import StepTrace

if TYPE_CHECKING:
    from prescope.runtime.plugin.serving import Serving
    from prescope.runtime.profile.drift import DriftMonitor

logger = logging.getLogger(__name__)

# Steps whose reports, and whose plans and traces, are kept.
_KEPT_REPORTS, _KEPT_STEPS = 10_000, 32


class StepLedger:
    """The steps of one engine.

    Parameters
    ----------
    drift
        Compares planned with executed times, or ``None``.
    """

    def __init__(self, drift: DriftMonitor | None) -> None:
        self.steps = 0
        self._drift = drift
        self._reports: deque[StepReport] = deque(maxlen=_KEPT_REPORTS)
        self._records: deque[StepRecord] = deque(maxlen=_KEPT_STEPS)
        self._warnings: list[str] = []
        self._previous: Program | None = None

    @property
    def records(self) -> tuple[StepRecord, ...]:
        """The newest steps in full, oldest first."""
        return tuple(self._records)

    def keep(self, steps: int) -> None:
        """Keep so many of the newest steps in full from now on."""
        require_int("number of steps kept", steps, 1)
        self._records = deque(self._records, maxlen=steps)
        # Every step kept in full has its report.
        self._reports = deque(self._reports, maxlen=max(steps, _KEPT_REPORTS))

    def interrupt(self) -> None:
        """A step was given up: the next one follows nothing."""
        self._previous = None

    def enter(
        self,
        *,
        instance: Instance,
        plan: Plan,
        program: Program,
        trace: StepTrace,
        tokens: int,
        exchanges: tuple[Exchange, ...] = (),
        phase: str,
        plan_ns: int,
        times: Callable[[Instance, Program, StepTrace], tuple[int | None, int | None]],
    ) -> None:
        """Check and report a step that has ended.

        Parameters
        ----------
        instance, plan, program, trace, tokens, exchanges
            As in `StepRecord`.
        phase, plan_ns
            As in `StepReport`.
        times
            Simulated and executed time of a step, `Serving.times`.

        Raises
        ------
        PlanError
            When the program was not safe after the one before.
        """
        planned = evaluate(instance, plan)
        # Every step is checked with the one before it; the first, or the first after an error, alone.
        verify(*((program,) if self._previous is None else (self._previous, program)))
        self._previous = program
        record = StepRecord(
            instance=instance,
            plan=plan,
            planned=planned,
            program=program,
            trace=trace,
            tokens=tokens,
            exchanges=exchanges,
        )
        simulated_ns, executed_ns = times(instance, program, trace)
        self._watch(planned.makespan_ns, executed_ns)
        self._reports.append(
            step_report(
                step=self.steps,
                phase=phase,
                record=record,
                simulated_ns=simulated_ns,
                executed_ns=executed_ns,
                plan_ns=plan_ns,
            )
        )
        self._records.append(record)
        self.steps += 1

    def report(self, settings: EngineSettings, serving: Serving, predictor: str) -> EngineReport:
        """All steps so far, planned, simulated and executed."""
        return EngineReport(
            steps=tuple(self._reports),
            policy=settings.policy,
            predictor=predictor,
            backend=serving.backend.name,
            preset=settings.preset,
            dilation=serving.dilation,
            expert_memory_bytes=settings.expert_memory_bytes,
            arena_bytes=serving.arena.size_bytes,
            residents=sum(map(len, settings.residents)),
            residency=settings.residency,
            warnings=tuple(dict.fromkeys((*serving.store.degraded, *self._warnings))),
            slots=settings.slots,
            lookahead=settings.lookahead,
        )

    def recording(self, report: EngineReport, model: Any) -> Recording:
        """The steps that are kept in full; raises ``ValueError`` when there is none."""
        reports = tuple(self._reports)[len(self._reports) - len(self._records) :]
        return recording_of(tuple(self._records), reports, report, model)

    def _watch(self, planned_ns: int, executed_ns: int | None) -> None:
        if self._drift is None or executed_ns is None:
            return
        event = self._drift.observe(planned_ns, executed_ns)
        if event is not None:
            logger.log(logging.INFO if event.recovered else logging.WARNING, event.message)
            self._warnings.append(event.message)
