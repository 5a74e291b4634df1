"""Training a predictor from a trace into a folder, in pieces that can be taken up again."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prescope.instances import RoutingTrace
    from prescope.predictor.llapor.settings import LlaporSettings
    from prescope.predictor.split import SequenceSplit

KINDS = ("llapor", "routing-only", "ridge")
_PARTIAL, _RUN = "training", "run.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """Progress of a training.

    Parameters
    ----------
    part, epoch
        Which network or layer, and which epoch of it; 0 where there are no epochs.
    parts
        Networks or layers in all.
    loss
        Validation loss, or ``None``.
    """

    part: int
    parts: int
    epoch: int
    loss: float | None


def train_llapor_into(
    folder: Path,
    trace: RoutingTrace,
    split: SequenceSplit,
    settings: LlaporSettings,
    *,
    workers: int,
    restart: bool,
    progress: Callable[[Epoch], None],
) -> dict[str, Any]:
    """Train LLaPor and write its checkpoint; an interrupted training goes on where it was.

    Returns
    -------
    dict
        Facts of the checkpoint, as ``prescope train --json`` shows them.

    Raises
    ------
    ValueError
        When the folder holds an unfinished training of other data or other settings.
    """
    from prescope.predictor.llapor import save_llapor, train_llapor
    from prescope.predictor.llapor.cost import prediction_times

    partial = folder / _PARTIAL
    _begin(partial, _identity(trace, split, settings), restart=restart)

    def report(epoch: Any) -> None:
        progress(Epoch(part=epoch.source, parts=trace.layers, epoch=epoch.epoch, loss=epoch.loss))

    model = train_llapor(
        trace, split=split, settings=settings, partial=partial, workers=workers, progress=report
    )
    model = replace(model, cost_ns=prediction_times(model))
    save_llapor(folder, model, notes=f"trained on: {trace.meta.source}")
    shutil.rmtree(partial)
    return {
        "parameters": model.parameters,
        "groups": list(model.groups),
        "prediction_ns": [list(pair) for pair in model.cost_ns],
    }


def train_routing_only_into(
    folder: Path,
    trace: RoutingTrace,
    split: SequenceSplit,
    kind: str,
    *,
    progress: Callable[[Epoch], None],
) -> dict[str, Any]:
    """Train a predictor that needs no gating inputs and write its checkpoint; as `train_llapor_into`."""
    from prescope.predictor.routing_only import (
        RIDGE,
        RoutingOnlySettings,
        save_routing_only,
        train_routing_only,
    )
    from prescope.predictor.routing_only.cost import prediction_times

    model = train_routing_only(
        trace,
        split,
        RIDGE if kind == "ridge" else RoutingOnlySettings(),
        progress=lambda done, total: progress(Epoch(part=done - 1, parts=total, epoch=0, loss=None)),
    )
    model = replace(model, cost_ns=prediction_times(model))
    save_routing_only(folder, model, notes=f"trained on: {trace.meta.source}")
    costs = [list(pair) for pair in model.cost_ns]
    return {"parameters": model.nbytes // 4, "groups": [], "prediction_ns": costs}


def _identity(trace: RoutingTrace, split: SequenceSplit, settings: LlaporSettings) -> dict[str, Any]:
    """What an unfinished training must have in common with the one that takes it up."""
    digest = hashlib.sha256()
    for array in (trace.topk_ids, trace.hidden, trace.topk_weights, trace.token_ids, trace.seq_offsets):
        digest.update(b"-" if array is None else array.tobytes())
    return {
        "trace": digest.hexdigest(),
        "split": json.loads(json.dumps(asdict(split))),
        "settings": json.loads(json.dumps(asdict(settings))),
    }


def _begin(partial: Path, identity: dict[str, Any], *, restart: bool) -> None:
    from prescope.instances._atomic import atomic_file

    run = partial / _RUN
    if restart and partial.exists():
        shutil.rmtree(partial)
    if run.exists():
        try:
            before = json.loads(run.read_bytes())
        except ValueError:
            before = None
        if before != identity:
            raise ValueError(
                f"{partial}: expected an unfinished training of the same trace, split and settings, got "
                "another one: choose another folder, or begin anew with --restart"
            )
        return
    partial.mkdir(parents=True, exist_ok=True)
    with atomic_file(run) as stream:
        stream.write(json.dumps(identity).encode())
