"""The engine: serves a transformers model whose experts stay in host memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from statistics import median
from time import perf_counter_ns
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from prescope.formulation.demand import IntArray
from prescope.instances import Recording as StepRecording
from prescope.instances import RoutingTrace, write_recording
from prescope.predictor import Predictor
from prescope.runtime.control import StepControl
from prescope.runtime.control.retention import Pinned, Retention
from prescope.runtime.plugin.expert_math import add_outputs, autocast_type, compute_expert, expert_inputs
from prescope.runtime.plugin.ledger import StepLedger
from prescope.runtime.plugin.moe_layers import MoeLayer
from prescope.runtime.plugin.new_step import StepFactory
from prescope.runtime.plugin.recording import RoutingRecorder, trace_meta
from prescope.runtime.plugin.registration import Hooks
from prescope.runtime.plugin.report import EngineReport
from prescope.runtime.plugin.request import Recording
from prescope.runtime.plugin.rows import ForwardCall, RowTracker
from prescope.runtime.plugin.serving import Serving
from prescope.runtime.plugin.settings import EngineSettings, StepRecord
from prescope.runtime.plugin.turns import Turns

if TYPE_CHECKING:
    # The profile measures with parts of this package.
    from prescope.runtime.profile.drift import DriftMonitor


class Engine:
    """A model's experts under a schedule; made by `prescope.attach`, ended by `detach` or a ``with`` block.

    The model is used as before (``model(...)``, ``model.generate(...)``), in inference only and from one
    thread at a time.
    """

    def __init__(
        self,
        *,
        model: Any,
        layers: tuple[MoeLayer, ...],
        serving: Serving,
        predictor: Predictor,
        settings: EngineSettings,
        factory: StepFactory,
        restore: Callable[[], None],
        record: Recording,
        retention: Retention | None = None,
        drift: DriftMonitor | None = None,
    ) -> None:
        self._model, self._layers, self._serving = model, layers, serving
        self._predictor, self._settings = predictor, settings
        self._factory, self._restore = factory, restore
        self._retention = retention or Pinned()
        self._rows = RowTracker()
        self._recorder: RoutingRecorder | None = None
        if record:
            self._recorder = RoutingRecorder(hidden=record == "hidden")
        self._ledger = StepLedger(drift)
        self._control: StepControl | None = None
        self._next_layer = self._tokens = 0
        self._phase = "prefill"
        self._link_ready_ns = 0
        self._plan_ns: list[int] = []
        self._predict: Callable[[], None] = _nothing
        self._turns = Turns()
        self._detached = False
        self._hooks = Hooks(model, layers, self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Refuse copies: a copied or pickled model would share threads and hooks with the original."""
        raise TypeError("expected a detached model to copy or pickle, got one with an engine: detach first")

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.detach()

    @property
    def settings(self) -> EngineSettings:
        """How the engine really runs."""
        return self._settings

    @property
    def serving(self) -> Serving:
        """The weights' places and the backend."""
        return self._serving

    @property
    def residents(self) -> tuple[tuple[int, ...], ...]:
        """Who is resident when the next step begins, per layer, ascending."""
        return self._serving.stepper.residents()

    @property
    def records(self) -> tuple[StepRecord, ...]:
        """The newest steps in full, oldest first."""
        return self._ledger.records

    def keep_steps(self, steps: int) -> None:
        """Keep so many of the newest steps in full from now on; 32 unless told."""
        self._ledger.keep(steps)

    def recording(self) -> StepRecording:
        """The newest steps in full, ready for `prescope.instances.write_recording`.

        Raises
        ------
        ValueError
            When no step has been run yet.
        """
        return self._ledger.recording(self.report(), self._model)

    def write_recording(self, path: str | os.PathLike[str]) -> None:
        """Write `recording` to a file that `prescope inspect` opens; raises as `write_recording` does."""
        write_recording(path, self.recording())

    def detach(self) -> None:
        """Give the model its weights and its stock behaviour back, bit for bit. Further calls do nothing."""
        if self._detached:
            return
        self._end_interrupted()
        self._turns.wait()
        self._detached = True
        with ExitStack() as stack:
            # In reverse order, and each whatever becomes of the others.
            stack.callback(self._turns.give_back)
            stack.callback(self._hooks.remove)
            stack.callback(self._restore)
            stack.callback(self._serving.close)
            stack.callback(self._retention.close)

    def report(self) -> EngineReport:
        """What was done so far, planned, simulated and executed."""
        return self._ledger.report(self._settings, self._serving, self._predictor.name)

    def step_counts(self) -> list[IntArray]:
        """Tokens of each expert, int64 ``[layers, experts]``, of every recorded step.

        Raises
        ------
        ValueError
            When the engine does not record.
        """
        return self._recording().step_counts(self._settings.experts)

    def routing(self, *, source: str = "", notes: str = "", forget: bool = False) -> RoutingTrace:
        """The recorded routing; raises like `step_counts`.

        Parameters
        ----------
        source, notes
            As for `prescope.instances.TraceMeta`.
        forget
            Drop it from the engine's memory: the next call has what came after.
        """
        meta = trace_meta(
            self._model, self._layers, experts=self._settings.experts, source=source, notes=notes
        )
        trace = self._recording().trace(meta=meta)
        if forget:
            self._recording().forget()
        return trace

    def _recording(self) -> RoutingRecorder:
        if self._recorder is None:
            raise ValueError("expected an engine attached with record=True, got one that does not record")
        return self._recorder

    # -- called by the hooks ------------------------------------------------------------------------------

    def on_generate(self, end_ids: tuple[int, ...]) -> None:
        """``generate`` begins; see `ForwardListener`."""
        self._turns.begin_generate()
        self._rows.begin_generate(end_ids)

    def on_generate_end(self) -> None:
        """``generate`` ended; see `ForwardListener`."""
        self._turns.end_generate()
        self._rows.end_generate()

    def on_forward(self, call: ForwardCall) -> None:
        """Plan a step and start it; see `ForwardListener`."""
        self._end_interrupted()
        self._turns.take()
        try:
            self._rows.begin_forward(call)
            real = self._rows.real_rows(call.batch * call.tokens)
            self._tokens = int(real.shape[0])
            self._phase = "prefill" if call.tokens > 1 else "decode"
            if self._recorder is not None:
                if call.past == 0:
                    self._recorder.begin_sequences()
                self._recorder.begin_step(real, (call.batch, call.tokens), call.ids, first=call.past == 0)
            sequences, ids = self._rows.sequences(real), self._rows.token_ids(real)
            self._predictor.begin_step(self._tokens, sequences=sequences, token_ids=ids)
            # After a prompt come steps of a token per sequence.
            coming_tokens = int(np.unique(sequences).size)
            self._control = self._factory.new_step(
                name=f"step-{self._ledger.steps}",
                tokens=self._tokens,
                link_ready_ns=self._link_ready_ns,
                resident=self._retention.begin_step(tokens=self._tokens, coming_tokens=coming_tokens),
            )
            self._next_layer, self._predict = 0, _nothing
            self._plan_ns.clear()
            wave = self._control.start()
            self._serving.stepper.begin_step(
                wave.requests, batch_tokens=self._tokens, link_busy_ns=self._link_ready_ns
            )
            self._serving.stepper.dense_begin(0)
        except BaseException:
            self._abandon()
            raise

    def on_forward_end(self) -> None:
        """Clean up after a forward pass that did not reach its last layer; see `ForwardListener`."""
        # A pass refused because another thread's is running must not end that one.
        if self._turns.mine:
            self._abandon()

    def on_experts(
        self, layer: int, module: nn.Module, hidden: Tensor, indices: Tensor, weights: Tensor
    ) -> Tensor:
        """Decide a layer at its gate and run it; see `ForwardListener`."""
        if torch.is_grad_enabled() and (hidden.requires_grad or weights.requires_grad):
            raise RuntimeError(
                "expected inference (torch.no_grad() or generate), got a forward pass that records gradients"
            )
        if self._control is None or layer != self._next_layer:
            raise RuntimeError(
                f"expected the experts of layer {self._next_layer} inside a forward pass of the model, "
                f"got a call of layer {layer}"
            )
        try:
            return self._run_layer(layer, module, hidden, indices, weights)
        except BaseException:
            self._abandon()
            raise

    # -- one step -----------------------------------------------------------------------------------------

    def _run_layer(
        self, layer: int, module: nn.Module, hidden: Tensor, indices: Tensor, weights: Tensor
    ) -> Tensor:
        assert self._control is not None
        stepper = self._serving.stepper
        with torch.no_grad():
            real = self._rows.real_rows(hidden.shape[0])
            inputs = expert_inputs(hidden, indices, weights, real, self._serving.store.experts)
            counts = np.zeros(self._serving.store.experts, dtype=np.int64)
            for expert, work in inputs.items():
                counts[expert] = work.rows.shape[0]
            chosen, scales = indices[real], weights[real]
            # The last gate's prediction belongs before this gate is observed, however late its lane is.
            self._predict()
            began = perf_counter_ns()
            self._predictor.observe(layer, hidden[real], chosen, scales)
            wave = self._control.gate(layer, counts)
            lasting = stepper.lasting(layer, wave.requests) if wave.brought else ()
            exchanges = self._retention.gate(layer, counts, wave.brought, lasting)
            self._plan_ns.append(perf_counter_ns() - began)
            if self._recorder is not None:
                self._recorder.gate(chosen, scales, hidden[real])
            outputs: dict[int, Tensor] = {}
            compute = partial(compute_expert, module, outputs, autocast_type())
            # The dense part ends here; in slow motion it is held, so planning is not part of what is timed.
            stepper.dense_end()
            ticket = stepper.submit(
                layer,
                gpu=[(expert, int(counts[expert])) for expert in wave.plan.gpu],
                cpu=[(expert, int(counts[expert])) for expert in wave.plan.cpu],
                copies=wave.requests,
                exchanges=[(exchange.expert, exchange.victim) for exchange in exchanges],
                work={expert: partial(compute, expert, work) for expert, work in inputs.items()},
                prediction_ns=wave.prediction_ns,
                predict=wave.predict,
            )
            self._predict = wave.predict or _nothing
            stepper.wait(ticket)
            combined = add_outputs(hidden, inputs, outputs)
        self._next_layer = layer + 1
        if self._next_layer < self._serving.store.layers:
            stepper.dense_begin(self._next_layer)
        else:
            self._finish_step()
        return combined

    def _finish_step(self) -> None:
        assert self._control is not None
        trace = self._serving.stepper.end_step()
        instance, plan = self._control.finish(self._predictor.name)
        self._link_ready_ns = self._control.link_ready_ns
        self._ledger.enter(
            instance=instance,
            plan=plan,
            program=self._serving.stepper.program(),
            trace=trace,
            tokens=self._tokens,
            exchanges=self._retention.exchanges,
            phase=self._phase,
            plan_ns=round(median(self._plan_ns)),
            times=self._serving.times,
        )
        self._serving.stepper.settle()
        self._retention.end_step()
        if self._recorder is not None:
            self._recorder.end_step()
        self._control = None
        self._turns.give_back()

    def _end_interrupted(self) -> None:
        """End a pass of this thread that was interrupted (Ctrl-C) where no hook is told of it."""
        if self._turns.mine:
            self._abandon()

    def _abandon(self) -> None:
        """After an error: forget the step, so that the next one starts clean."""
        self._control = None
        self._ledger.interrupt()
        self._factory.forget()
        self._link_ready_ns = 0
        try:
            self._serving.reset()
            self._retention.resume(self._serving.stepper.residents())
        finally:
            self._turns.give_back()


def _nothing() -> None:
    """Stand in for a prediction where none is open."""
