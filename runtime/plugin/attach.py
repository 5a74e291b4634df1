"""Attach an engine to a transformers model."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from prescope.formulation import parse_bytes
from prescope.formulation import preset as named_preset
from prescope.formulation.demand import FloatArray
from prescope.predictor import Predictor, PredictorContext, make_predictor
from prescope.runtime.backends import backends
from prescope.runtime.plugin.engine import Engine
from prescope.runtime.plugin.moe_layers import AttachError, MoeLayer, check_supported, moe_layers
from prescope.runtime.plugin.placement import divide_budget, residents_of_budget
from prescope.runtime.plugin.serving import Serving
from prescope.runtime.plugin.settings import EngineSettings
from prescope.runtime.plugin.stale_router import StaleRouter
from prescope.runtime.plugin.weights import return_weights, take_weights
from prescope.solver.online import GatePolicy, gate_policies, make_gate_policy

DEFAULT_PRESET = "qwen3-30b-a3b@a100-pcie4"
# Stale gates keep half of their recall four layers ahead; beyond that the forecasts are mostly popularity.
_DEFAULT_LOOKAHEAD = 4
_CALIBRATION_TOKENS = 128


def attach(
    model: Any,
    expert_memory: str | int,
    *,
    policy: str = "dp",
    predictor: str | Predictor | None = None,
    backend: str = "cpu",
    preset: str = DEFAULT_PRESET,
    slots: int | None = None,
    lookahead: int | None = None,
    popularity: FloatArray | None = None,
    seed: int = 0,
    record: bool | Literal["hidden"] = False,
    backend_options: Any = None,
) -> Engine:
    """Take over where and when a model's experts run; what they compute stays the same.

    The experts move to one host store (the modules keep meta tensors), the most popular ones are pinned in
    device memory, the others are copied, prefetched or computed on the host as ``policy`` decides at every
    gate. `Engine.detach`, or leaving a ``with`` block, restores the model bit for bit.

    Parameters
    ----------
    model
        A transformers model of a supported family (Qwen3-MoE, Mixtral, OLMoE) in host memory, for inference.
    expert_memory
        Device memory for experts, in bytes of this model: ``"4GiB"`` or a number.
    policy
        ``"on-demand"``, ``"cpu-only"``, ``"intra-layer"``, ``"presched"`` or ``"dp"``; with a predictor that
        knows the demand beforehand, any method of `prescope.solver.methods`.
    predictor
        A name of `prescope.predictor.predictors`, or an object; ``None`` is ``"stale-gate"``, which needs
        no training.
    backend
        ``"cpu"`` emulates an accelerator in slow motion on worker threads; ``"sim"`` runs in virtual time.
    preset
        Cost model ``"model@machine"`` that decides and emulates, whatever the real model's size.
    slots
        Buffers for copies; ``None`` takes a quarter of the memory, at most 48.
    lookahead
        How many layers ahead copies may be issued; ``None`` is 4, or all layers where demand is known.
    popularity
        Share of each expert, ``[layers, experts]``, that chooses the pinned ones and starts the predictor;
        ``None`` measures it in one pass over random tokens.
    seed
        Seed of that pass and of the solver.
    record
        Keep the routing for `Engine.routing` and `Engine.step_counts`; ``"hidden"`` keeps gating inputs too.
    backend_options
        As for `prescope.runtime.open_backend`; ``None`` measures how slow the slow motion must be.

    Raises
    ------
    AttachError
        When anything asked for cannot be honoured; nothing has changed then.
    """
    if not isinstance(model, nn.Module):
        raise AttachError(f"expected a transformers model, got {type(model).__name__}")
    layers = moe_layers(model)
    check_supported(model, layers)
    settings_error = _check_names(backend, record)
    if settings_error:
        raise AttachError(settings_error)
    count, experts, row_bytes = _shape(layers)
    try:
        costs = named_preset(preset, layers=count)
        budget_bytes = parse_bytes(expert_memory)
    except ValueError as error:
        raise AttachError(str(error)) from error
    pinned, buffers = divide_budget(
        budget_bytes, row_bytes=row_bytes, layers=count, experts=experts, slots=slots
    )
    if not costs.host_computes and buffers == 0 and pinned < count * experts:
        raise AttachError("expected slots >= 1 where the host cannot compute, got 0")
    shares = _popularity(model, layers, popularity, seed)
    residents = residents_of_budget(shares, pinned)
    chosen = _predictor(predictor, layers, shares)
    known = getattr(chosen, "name", "") == "oracle"
    gate_policy = _gate_policy(policy, known)
    reach = (count if known else _DEFAULT_LOOKAHEAD) if lookahead is None else lookahead
    if isinstance(reach, bool) or not isinstance(reach, int) or reach < 0:
        raise AttachError(f"expected lookahead to be an integer >= 0, got {reach!r}")
    store = take_weights(layers)
    serving: Serving | None = None
    try:
        if backend == "cpu" and backend_options is None:
            from prescope.runtime.plugin.slow_motion import slow_motion_options

            backend_options = slow_motion_options(model, layers, store, costs.costs, seed=seed)
        serving = Serving(
            store=store,
            costs=costs.costs,
            residents=residents,
            slots=buffers,
            host_computes=costs.host_computes,
            budget_bytes=budget_bytes,
            backend=backend,
            options=backend_options,
        )
        return Engine(
            model=model,
            layers=layers,
            serving=serving,
            predictor=chosen,
            settings=EngineSettings(
                policy=policy,
                gate_policy=gate_policy,
                costs=costs.costs,
                preset=preset,
                tier=costs.tier,
                host_computes=costs.host_computes,
                residents=residents,
                slots=buffers,
                lookahead=reach,
                expert_memory_bytes=budget_bytes,
                seed=seed,
            ),
            record=record,
        )
    except BaseException:
        if serving is not None:
            serving.close()
        return_weights(layers, store)
        raise


def _check_names(backend: str, record: object) -> str | None:
    if backend not in backends():
        return f"expected a backend among {', '.join(backends())}, got {backend!r}"
    if record not in (False, True, "hidden"):
        return f"expected record to be False, True or 'hidden', got {record!r}"
    return None


def _shape(layers: tuple[MoeLayer, ...]) -> tuple[int, int, int]:
    weights = [getattr(layers[0].experts, part) for part in ("gate_up_proj", "down_proj")]
    row_bytes = sum(weight[0].numel() * weight.element_size() for weight in weights)
    return len(layers), int(weights[0].shape[0]), row_bytes


def _gate_policy(policy: str, known: bool) -> GatePolicy | None:
    if known:
        from prescope.solver import methods

        if policy not in methods():
            raise AttachError(f"expected a method among {', '.join(methods())}, got {policy!r}")
        return None
    if policy not in gate_policies():
        raise AttachError(f"expected a policy among {', '.join(gate_policies())}, got {policy!r}")
    return make_gate_policy(policy)


def _predictor(
    predictor: str | Predictor | None, layers: tuple[MoeLayer, ...], shares: FloatArray
) -> Predictor:
    if predictor is not None and not isinstance(predictor, str):
        return predictor
    context = PredictorContext(
        layers=shares.shape[0],
        experts=shares.shape[1],
        top_k=layers[0].router.top_k,
        router=StaleRouter(layers),
        prior=shares,
    )
    try:
        return make_predictor(predictor or "stale-gate", context)
    except ValueError as error:
        raise AttachError(str(error)) from error


def _popularity(model: Any, layers: tuple[MoeLayer, ...], given: FloatArray | None, seed: int) -> FloatArray:
    shape = _shape(layers)[:2]
    if given is not None:
        shares = np.asarray(given, dtype=np.float64)
        if shares.shape != shape or not np.isfinite(shares).all() or shares.min() < 0:
            raise AttachError(f"expected finite popularity >= 0 of shape {shape}, got shape {shares.shape}")
        return shares
    counts = np.zeros(shape)
    hooks = []

    def counter(index: int) -> Any:
        def count(module: nn.Module, args: Any, output: Any) -> None:
            counts[index] += np.bincount(output[2].cpu().numpy().reshape(-1), minlength=shape[1])

        return count

    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(model.config.vocab_size, (1, _CALIBRATION_TOKENS), generator=generator)
    try:
        for index, layer in enumerate(layers):
            hooks.append(layer.router.register_forward_hook(counter(index)))
        with torch.no_grad():
            model.base_model(input_ids=ids, use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()
    return counts / _CALIBRATION_TOKENS
