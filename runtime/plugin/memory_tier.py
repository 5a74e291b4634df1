"""Serving experts that rest in host memory: pinned residents, and slots for the others."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from prescope.predictor import Predictor
from prescope.runtime.arena import DeviceArena
from prescope.runtime.backends import open_backend
from prescope.runtime.builder import ProgramBuilder
from prescope.runtime.control.retention import Retention
from prescope.runtime.plugin.engine import Engine
from prescope.runtime.plugin.moe_layers import MoeLayer
from prescope.runtime.plugin.new_step import PinnedStepFactory
from prescope.runtime.plugin.request import Recording
from prescope.runtime.plugin.serving import Serving
from prescope.runtime.plugin.settings import EngineSettings
from prescope.runtime.plugin.weights import return_weights, take_weights
from prescope.runtime.stepper import Stepper
from prescope.runtime.store import HostStore
from prescope.runtime.synthetic import synthetic_store


def serve_from_memory(
    model: Any,
    layers: tuple[MoeLayer, ...],
    *,
    settings: EngineSettings,
    predictor: Predictor,
    backend: str,
    backend_options: Any,
    record: Recording,
    retention: Retention | None,
) -> Engine:
    """Move a model's experts to a host store and start an engine; on failure the model is as before."""
    store = take_weights(layers)
    serving: Serving | None = None
    try:
        if backend == "cpu" and backend_options is None:
            from prescope.runtime.plugin.slow_motion import slow_motion_options

            backend_options = slow_motion_options(model, layers, store, settings.costs, seed=settings.seed)
        # The arena is written outside the caller's inference mode, by threads that know none.
        with torch.inference_mode(False):
            serving = _serving(store, settings, backend, backend_options, retention is not None)
        return Engine(
            model=model,
            layers=layers,
            serving=serving,
            predictor=predictor,
            settings=settings,
            factory=PinnedStepFactory(settings, predictor),
            restore=partial(return_weights, layers, store),
            record=record,
            retention=retention,
        )
    except BaseException:
        if serving is not None:
            serving.close()
        return_weights(layers, store)
        raise


def _serving(
    store: HostStore, settings: EngineSettings, backend: str, options: Any, exchange: bool
) -> Serving:
    builder = ProgramBuilder(
        costs=settings.costs,
        experts=store.experts,
        slots=settings.slots,
        residents=settings.residents,
        host_computes=settings.host_computes,
        exchange=exchange,
    )
    arena = DeviceArena(
        store,
        residents=settings.residents,
        slots=settings.slots,
        budget_bytes=settings.expert_memory_bytes,
    )
    opened = open_backend(backend, store, arena, options)
    shadow = places = None
    if backend == "cpu":
        # The simulator beside the emulated run times the same programs on small weights of its own.
        small = synthetic_store(layers=store.layers, experts=store.experts, elements=3)
        places = DeviceArena(small, residents=settings.residents, slots=settings.slots)
        shadow = open_backend("sim", small, places)
    return Serving(
        store=store,
        arena=arena,
        backend=opened,
        stepper=Stepper(builder, opened),
        dilation=float(getattr(options, "dilation", 1.0)),
        shadow=shadow,
        shadow_arena=places,
        exchange=exchange,
    )
