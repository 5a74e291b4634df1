"""Training a whole LLaPor from a trace."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch

from prescope.instances import RoutingTrace
from prescope.predictor.llapor.basis import fit_basis
from prescope.predictor.llapor.calibrate import calibrate_source
from prescope.predictor.llapor.features import chosen
from prescope.predictor.llapor.groups import Group, layer_groups, layer_profile
from prescope.predictor.llapor.model import LlaporModel, ModelFacts, make_network
from prescope.predictor.llapor.network import SourceNetwork
from prescope.predictor.llapor.rows import SourceData, histories, trace_rows
from prescope.predictor.llapor.settings import LlaporSettings
from prescope.predictor.llapor.train_source import EpochReport, train_source
from prescope.predictor.split import SequenceSplit, split_sequences

logger = logging.getLogger(__name__)


def train_llapor(
    trace: RoutingTrace,
    *,
    split: SequenceSplit | None = None,
    settings: LlaporSettings | None = None,
    partial: str | os.PathLike[str] | None = None,
    workers: int = 1,
    progress: Callable[[EpochReport], None] = lambda report: None,
) -> LlaporModel:
    """Train, choose and calibrate the networks of all sources.

    The networks are trained on the training sequences, stopped and calibrated on the validation sequences;
    the test sequences are not looked at.

    Parameters
    ----------
    trace
        Routing with gating inputs.
    split
        Sequences by purpose; by default `split_sequences` with the seed of the settings.
    settings
        Hyper-parameters.
    partial
        Folder for the state of an unfinished training, from which another call goes on.
    workers
        Networks trained at once, each on a thread of its own. The result does not depend on it.
    progress
        Called after every epoch, from any of the threads.

    Raises
    ------
    ValueError
        When the trace has no gating inputs or too few sequences, or ``partial`` belongs to other data.
    """
    settings = settings or LlaporSettings()
    split = split or split_sequences(trace, seed=settings.seed)
    train, validation = trace_rows(trace, split.train), trace_rows(trace, split.validation)
    basis = fit_basis(
        train.hidden,
        train.token_ids,
        components=settings.components,
        history=settings.history,
        trend=settings.trend,
    )
    past = histories(train, basis, decay=settings.decay)
    size = past.trend.pow(2).mean(dim=0).sqrt().clamp_min(1e-3)
    basis.trend_scale.copy_(1.0 / size)
    validation_past = histories(validation, basis, decay=settings.decay)
    facts = ModelFacts(
        name=trace.meta.model,
        fingerprint=trace.meta.fingerprint,
        layers=trace.layers,
        experts=trace.meta.experts,
        top_k=trace.meta.top_k,
        hidden_size=train.hidden[0].shape[1],
    )
    profile = layer_profile(train.hidden, train.ids, facts.experts)
    # Nothing of a layer is known at the start of a step, which is as near to the input as can be.
    groups: tuple[Group, ...] = ("near-input", *layer_groups(profile))
    logger.info("layer groups: %s", ", ".join(groups))
    folder = None if partial is None else Path(partial)

    def one(source: int) -> tuple[SourceNetwork, np.ndarray]:
        network = make_network(
            facts, settings, basis, groups[source], source, seed=settings.seed * 1000 + source
        )
        seen = SourceData(train, past, basis, source=source, experts=facts.experts)
        judged = SourceData(validation, validation_past, basis, source=source, experts=facts.experts)
        train_source(
            network,
            seen,
            judged,
            source=source,
            group=settings.middle if groups[source] == "middle" else settings.outer,
            settings=settings,
            partial=None if folder is None else folder / f"source-{source}.safetensors",
            progress=progress,
        )
        found = np.zeros((settings.horizons, 2), dtype=np.float32)
        found[: network.horizons] = calibrate_source(network, judged, validation.lengths, seed=settings.seed)
        return network, found

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(max_workers=workers) as pool:
            # The first sources look furthest ahead and take longest.
            done = list(pool.map(one, range(facts.layers)))
    finally:
        torch.set_num_threads(threads)
    return LlaporModel(
        facts=facts,
        settings=settings,
        split=split,
        groups=groups,
        basis=basis,
        networks=tuple(network for network, _ in done),
        correction=np.stack([found for _, found in done]),
        prior=np.stack(
            [chosen(train.ids[:, at], facts.experts).mean(dim=0).numpy() for at in range(facts.layers)]
        ),
    )
