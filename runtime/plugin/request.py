"""What `prescope.attach` was asked for, checked and made definite."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from prescope.formulation import CostModel, Tier, parse_bytes
from prescope.formulation import preset as named_preset
from prescope.formulation.demand import FloatArray
from prescope.instances import CostFile, read_costs
from prescope.predictor import Oracle, Predictor, PredictorContext, make_predictor
from prescope.runtime.backends import backends
from prescope.runtime.plugin.moe_layers import AttachError, MoeLayer
from prescope.runtime.plugin.recording import gates_fingerprint
from prescope.runtime.plugin.stale_router import StaleRouter
from prescope.solver.online import GatePolicy, gate_policies, make_gate_policy

Recording = bool | Literal["hidden"]
"""Whether an engine keeps its routing, and whether with gating inputs."""

# Stale gates keep half of their recall four layers ahead; beyond that the forecasts are mostly popularity.
_DEFAULT_LOOKAHEAD = 4
_CALIBRATION_TOKENS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """A cost model with where it comes from.

    Parameters
    ----------
    name
        Preset, file, or description.
    costs
        Durations.
    tier, host_computes
        Where weights rest, and whether the host runs experts in place.
    depth, threads
        Reads in flight and intra-op threads that were measured; ``None`` where nothing was.
    """

    name: str
    costs: CostModel
    tier: Tier
    host_computes: bool
    depth: int | None = None
    threads: int | None = None


def resolve_costs(
    model: Any,
    costs: str | os.PathLike[str] | CostFile | CostModel | None,
    preset: str,
    *,
    layers: int,
    tier: Tier,
) -> Costs:
    """The cost model to decide with: a given one, else the preset.

    Raises
    ------
    AttachError
        When a file cannot be read or belongs to another model, or layers or tiers do not fit.
    """
    host = tier is Tier.RAM
    try:
        if isinstance(costs, CostModel):
            found = Costs(name=costs.source, costs=costs, tier=tier, host_computes=host)
        elif costs is not None:
            file = costs if isinstance(costs, CostFile) else read_costs(os.fspath(costs))
            from prescope.runtime.profile import fingerprint_of

            file.require_model(fingerprint_of(model))
            found = Costs(
                name=file.name,
                costs=file.costs,
                tier=file.tier,
                host_computes=file.host_computes,
                depth=file.provenance.depth,
                threads=file.provenance.threads,
            )
        else:
            named = named_preset(preset, layers=layers)
            found = Costs(name=preset, costs=named.costs, tier=named.tier, host_computes=named.host_computes)
    except ValueError as error:
        raise AttachError(str(error)) from error
    if found.costs.layers != layers:
        raise AttachError(f"expected costs of {layers} layers, got {found.costs.layers} in {found.name}")
    if tier is Tier.DISK and found.host_computes:
        raise AttachError(
            f"expected a cost model of the disk tier for experts on disk, got {found.name}: "
            "measure one with `prescope profile`, or name a preset such as 'olmoe-1b-7b@nvme-ram'"
        )
    return found


def resolve_budget(expert_memory: str | int) -> int:
    """Memory for experts in bytes; raises `AttachError` when it is no amount of memory."""
    try:
        return parse_bytes(expert_memory)
    except ValueError as error:
        raise AttachError(str(error)) from error


def check_choices(backend: str, record: object) -> None:
    """Refuse an unknown backend or kind of recording with `AttachError`."""
    if backend not in backends():
        raise AttachError(f"expected a backend among {', '.join(backends())}, got {backend!r}")
    if record not in (False, True, "hidden"):
        raise AttachError(f"expected record to be False, True or 'hidden', got {record!r}")


def resolve_policy(policy: str, predictor: Predictor) -> GatePolicy | None:
    """The gate policy; ``None`` where steps are planned as a whole because their demand is known."""
    if isinstance(predictor, Oracle):
        from prescope.solver import methods

        if policy not in methods():
            raise AttachError(f"expected a method among {', '.join(methods())}, got {policy!r}")
        return None
    if policy not in gate_policies():
        raise AttachError(f"expected a policy among {', '.join(gate_policies())}, got {policy!r}")
    return make_gate_policy(policy)


def resolve_lookahead(lookahead: int | None, predictor: Predictor, layers: int) -> int:
    """How many layers ahead copies may be issued."""
    if lookahead is None:
        return layers if isinstance(predictor, Oracle) else _DEFAULT_LOOKAHEAD
    if isinstance(lookahead, bool) or not isinstance(lookahead, int) or lookahead < 0:
        raise AttachError(f"expected lookahead to be an integer >= 0, got {lookahead!r}")
    return lookahead


def resolve_predictor(
    predictor: str | Predictor | None, layers: tuple[MoeLayer, ...], shares: FloatArray
) -> Predictor:
    """The predictor object; a name is built for this model."""
    if predictor is not None and not isinstance(predictor, str):
        _check_predictor(predictor, *shares.shape)
        return predictor
    context = PredictorContext(
        layers=shares.shape[0],
        experts=shares.shape[1],
        top_k=layers[0].router.top_k,
        router=StaleRouter(layers),
        prior=shares,
        hidden_size=int(layers[0].router.weight.shape[-1]),
        fingerprint=gates_fingerprint(layers),
    )
    try:
        return make_predictor(predictor or "stale-gate", context)
    except ValueError as error:
        raise AttachError(str(error)) from error


def _check_predictor(predictor: Predictor, layers: int, experts: int) -> None:
    """Refuse what is no predictor, or one for a model of another shape, with `AttachError`."""
    wanted = ("name", "known_counts", "begin_step", "observe", "predict")
    if missing := [name for name in wanted if not hasattr(predictor, name)]:
        raise AttachError(
            f"expected a predictor, got {type(predictor).__name__} without {', '.join(missing)}"
        )
    try:
        shape = predictor.predict(-1, layers).probability.shape
    except ValueError as error:
        raise AttachError(
            f"expected forecasts for {layers} layers from {predictor.name!r}: {error}"
        ) from error
    if shape != (experts,):
        raise AttachError(
            f"expected forecasts for {experts} experts from {predictor.name!r}, got shape {shape}"
        )


def resolve_popularity(
    given: FloatArray | None, shape: tuple[int, int], measure: Callable[[], FloatArray]
) -> FloatArray:
    """Share of each expert, checked; measured when not given."""
    if given is None:
        return measure()
    shares = np.asarray(given, dtype=np.float64)
    if shares.shape != shape or not np.isfinite(shares).all() or shares.min() < 0:
        raise AttachError(f"expected finite popularity >= 0 of shape {shape}, got shape {shares.shape}")
    return shares


def random_token_popularity(model: Any, layers: tuple[MoeLayer, ...], experts: int, seed: int) -> FloatArray:
    """Shares measured in one stock pass over random tokens, float ``[layers, experts]``."""
    counts = np.zeros((len(layers), experts))
    hooks = []

    def counter(index: int) -> Any:
        def count(module: Any, args: Any, output: Any) -> None:
            counts[index] += np.bincount(output[2].cpu().numpy().reshape(-1), minlength=experts)

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
