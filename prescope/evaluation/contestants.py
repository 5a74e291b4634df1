"""The predictors of an evaluation: the one asked for, and the baselines that the trace allows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from prescope.evaluation.sequences import rows_of
from prescope.formulation.demand import FloatArray
from prescope.instances import NOT_RECORDED, RoutingTrace
from prescope.predictor import Predictor, PredictorContext, TokenTable, make_predictor
from prescope.predictor.replay import gate
from prescope.predictor.split import SequenceSplit

_BLOCK = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """A predictor that can be made afresh, or why it cannot.

    Parameters
    ----------
    name
        In tables.
    make
        Makes it; ``None`` where it cannot be made.
    missing
        What it lacks.
    """

    name: str
    make: Callable[[], Predictor] | None = None
    missing: str | None = None


def trained_split(predictor: str) -> tuple[str, SequenceSplit | None]:
    """Full name of a predictor that may be a checkpoint folder, and the sequences it was trained with.

    ``"llapor"`` alone is the one that comes with the tiny model.

    Raises
    ------
    ValueError
        When a folder holds no checkpoint.
    """
    if predictor == "llapor":
        from prescope.tiny import tiny_llapor_path

        predictor = f"llapor:{tiny_llapor_path()}"
    kind, colon, place = predictor.partition(":")
    folder = Path(place if colon and place else predictor)
    if not folder.is_dir():
        if colon or "/" in predictor:
            raise ValueError(
                f"expected a checkpoint folder, got none at {folder}; `prescope train` makes one"
            )
        return predictor, None
    path = folder / "predictor.json"
    try:
        document = json.loads(path.read_bytes())
        split = SequenceSplit(**{name: tuple(rows) for name, rows in document["split"].items()})
        found = str(document["kind"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path}: expected the description of a checkpoint, got {error}; `prescope train` makes one"
        ) from error
    if colon and kind != found:
        raise ValueError(f"expected a checkpoint of kind {kind!r} in {folder}, got {found!r}")
    return f"{found}:{folder}", split


def contestants(
    predictor: str,
    trace: RoutingTrace,
    split: SequenceSplit,
    *,
    baselines: tuple[str, ...],
    prior: FloatArray,
    model: Any | None,
) -> Iterator[Contestant]:
    """The predictor asked for, then the baselines; each is made only when it is used.

    Parameters
    ----------
    predictor
        Full name, as `trained_split` gives it.
    trace, split
        Recorded routing, and the sequences that baselines may learn from.
    baselines
        Names.
    prior
        Popularity that they start from.
    model
        Model whose gates the stale gate applies, or ``None``.
    """
    context = PredictorContext(
        layers=trace.layers,
        experts=trace.meta.experts,
        top_k=trace.meta.top_k,
        hidden_size=None if trace.hidden is None else int(trace.hidden.shape[2]),
        fingerprint=trace.meta.fingerprint,
        prior=prior,
    )
    if model is not None:
        context = replace(context, router=_router(model, trace))
    for name in dict.fromkeys((predictor, *baselines)):
        # A baseline asked for by its checkpoint need not be fitted again.
        if name == predictor or name != predictor.partition(":")[0]:
            yield _contestant(name, trace, split, context)


def _contestant(
    name: str, trace: RoutingTrace, split: SequenceSplit, context: PredictorContext
) -> Contestant:
    missing = None
    shown = name.partition(":")[0]
    if name == "stale-gate" and trace.hidden is None:
        missing = "the trace has no gating inputs; `prescope record --hidden` keeps them"
    elif name == "stale-gate" and context.router is None:
        missing = "the gates are not in the trace: name the model with --model"
    elif name == "token-table" and trace.token_ids is None:
        missing = "the trace has no token ids"
    elif name in ("token-table", "ridge") and not split.train:
        missing = f"the trace has no sequences to learn from beside the {len(split.test)} judged"
    elif shown == "llapor" and trace.hidden is None:
        missing = "the trace has no gating inputs; `prescope record --hidden` keeps them"
    if missing is not None:
        return Contestant(name=shown, missing=missing)
    if name == "token-table":
        return Contestant(name=name, make=lambda: _token_table(trace, split, context))
    if name == "ridge":
        from prescope.predictor.routing_only import RIDGE, RoutingOnly, train_routing_only

        fitted = cache(lambda: train_routing_only(trace, split, RIDGE))
        return Contestant(name=name, make=lambda: RoutingOnly(fitted()))
    return Contestant(name=shown, make=lambda: make_predictor(name, context))


def _token_table(trace: RoutingTrace, split: SequenceSplit, context: PredictorContext) -> Predictor:
    table = TokenTable(
        layers=context.layers, experts=context.experts, top_k=context.top_k, prior=context.prior
    )
    rows = rows_of(trace, split.train)
    rows = rows[(trace.topk_ids[rows] != NOT_RECORDED).all(axis=(1, 2))]
    assert trace.token_ids is not None
    for at in range(0, len(rows), _BLOCK):
        block = rows[at : at + _BLOCK]
        table.begin_step(len(block), token_ids=trace.token_ids[block].astype("int64"))
        for layer in range(trace.layers):
            _, ids, _ = gate(trace, block, layer)
            table.observe(layer, None, ids, None)
    return table


def _router(model: Any, trace: RoutingTrace) -> Any:
    from prescope.runtime.plugin.moe_layers import moe_layers
    from prescope.runtime.plugin.stale_router import StaleRouter

    layers = moe_layers(model)
    if len(layers) != trace.layers:
        raise ValueError(f"expected a model of {trace.layers} MoE layers as in the trace, got {len(layers)}")
    return StaleRouter(layers)
