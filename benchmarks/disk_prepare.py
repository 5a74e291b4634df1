"""Models, token streams and costs that the measurements of the disk tier start from."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.disk_routing import REFERENCE, Array, RoutingFigures, trace_figures

STREAM_TOKENS = 64
CALIBRATION, VALIDATION = 48, 100


def prepare_cut(
    work: Path,
    say: Callable[[str], None],
    notes: list[str],
    *,
    layers: int = 12,
    expert_size: int | None = None,
    name: str = "cut",
    traces: Path | None = None,
) -> tuple[Path, Array, str]:
    """The cut model, written and sharpened unless it is there; its popularity elsewhere, and its title.

    Parameters
    ----------
    work
        Folder below which it goes.
    say, notes
        Receive progress, and what the results should say.
    layers, expert_size
        Its layers, and the intermediate size of its experts; ``None`` is Qwen3-MoE's own.
    name
        Folder.
    traces
        Folder of stored routing traces.
    """
    from benchmarks.disk_model import config_of, write_model
    from benchmarks.disk_sharpen import routing_figures, routing_of, sharpen

    folder = work / name
    routing = work / f"{folder.name}-routing.npz"
    target, where = _target(traces)
    if not routing.exists():
        shutil.rmtree(folder, ignore_errors=True)
        config = config_of("qwen3_moe", layers=layers, experts=32, top_k=4, expert_size=expert_size)
        say("writing the model")
        write_model(folder, config, shard_bytes=10**9, std=0.02, seed=0, quiet=True)
        say("sharpening its routers")
        chosen = sharpen(folder, streams()[:CALIBRATION], target, seed=0, say=say)
        say("its routing of streams to test with")
        test = routing_of(folder, streams()[VALIDATION:][:CALIBRATION])
        np.savez_compressed(routing, chosen=chosen, test=test)
    with np.load(routing) as stored:
        chosen, test = stored["chosen"], stored["test"]
    notes.append(f"routing of {where}: {target.describe()}")
    for kind, routed in (("it was sharpened on", chosen), ("to test with", test)):
        notes.append(f"routing of the cut model on streams {kind}: {routing_figures(routed).describe()}")
    return folder, chosen.mean(axis=(0, 1)), f"qwen3-moe cut to {layers}x32, top 4"


def _target(traces: Path | None) -> tuple[RoutingFigures, str]:
    for folder in (traces, Path(__file__).parents[2] / "shared" / "traces"):
        if folder is not None and (folder / "gptoss_20b.npz").is_file():
            return trace_figures(folder / "gptoss_20b.npz"), "gpt-oss-20b (trace, measured now)"
    return REFERENCE, "gpt-oss-20b (stated figures)"


def streams() -> Array:
    """Real token streams: to sharpen and profile, to validate, to test."""
    from prescope.tiny import heldout_streams

    return heldout_streams(200, length=STREAM_TOKENS, source="stdlib")


def groups_of(rows: Array, batch: int, steps: int) -> list[Array]:
    """Streams that step together, until there are enough steps."""
    groups = []
    for first in range(0, rows.shape[0], batch):
        if steps <= 0:
            break
        groups.append(rows[first : first + batch, : min(steps, rows.shape[1])])
        steps -= rows.shape[1]
    return groups


def costs_of(folder: Path, path: Path, say: Callable[[str], None], *, quick: bool = False) -> Any:
    """Costs of a model (`prescope.instances.CostFile`), measured unless they are there."""
    from prescope.instances import read_costs, write_costs
    from prescope.runtime.profile import ProfileSettings, profile_checkpoint, quick_settings
    from prescope.runtime.profile.timing import Effort

    if not path.exists():
        say(f"profile of {folder.name}")
        # The contexts that the streams reach on average.
        settings = ProfileSettings(
            context=32,
            decode_tokens=(1, 2, 4, 8),
            prefill_tokens=(16,),
            expert_tokens=(1, 2, 4, 8, 16),
            effort=Effort(repeats=15, budget_ns=4 * 10**9),
        )
        write_costs(path, profile_checkpoint(folder, quick_settings(context=32) if quick else settings))
    return read_costs(path)
