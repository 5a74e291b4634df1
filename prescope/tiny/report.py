"""Command: judge a tiny model (``python -m prescope.tiny.report CHECKPOINT``)."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

# Recall of a like model by the same predictions, measured before (10 minutes of training, other text).
REFERENCE_STALE_GATE = (0.76, 0.67, 0.60, 0.53)
REFERENCE_POPULARITY = 0.19
REFERENCE_PREVIOUS_TOKEN = 0.28


@dataclass(frozen=True, slots=True, kw_only=True)
class TinyReport:
    """Quality of a tiny model and predictability of its routing, on held-out files.

    Attributes
    ----------
    validation_loss : float
        Nats per predicted token.
    tokens : int
        Held-out tokens the recalls are taken over.
    random : float
        Recall of experts picked blindly, ``top_k / experts``.
    popularity, previous_token : list of float
        Recall per layer.
    stale_gate, stale_gate_as_is : list of list of float
        Recall by horizon (1 first), then by layer looked ahead from; with the norm of the layer looked
        ahead to, and without (see ``stale_gate_recall``).
    usage_entropy : list of float
        Per layer, 1 for uniform usage.
    busiest_share : list of float
        Per layer, share of the routed slots of the busiest expert.
    dead_experts : list of int
        Per layer, experts never chosen on the held-out tokens.
    """

    validation_loss: float
    tokens: int
    random: float
    popularity: list[float]
    previous_token: list[float]
    stale_gate: list[list[float]]
    stale_gate_as_is: list[list[float]]
    usage_entropy: list[float]
    busiest_share: list[float]
    dead_experts: list[int]


def report(
    folder: Path, *, streams: int = 64, length: int = 256, horizons: int = 4, seed: int = 0
) -> TinyReport:
    """Measure the checkpoint in `folder` on `streams` held-out streams of `length` tokens."""
    from prescope.tiny._capture import capture_routing
    from prescope.tiny._checkpoint import load_checkpoint
    from prescope.tiny._loss import validation_loss
    from prescope.tiny._recall import (
        popularity_recall,
        previous_token_recall,
        stale_gate_recall,
        usage,
        usage_entropy,
    )
    from prescope.tiny._streams import stdlib_streams

    model, _ = load_checkpoint(folder)
    experts, top_k = model.config.num_experts, model.config.num_experts_per_tok
    rows = stdlib_streams(folder, count=streams, length=length, seed=seed)
    seen = stdlib_streams(folder, count=streams, length=length, seed=seed, heldout=False)
    routing = capture_routing(model, rows)
    trained_shares = usage(capture_routing(model, seen), experts=experts)
    shares = usage(routing, experts=experts)
    ahead = range(1, min(horizons, len(shares) - 1) + 1)
    return TinyReport(
        validation_loss=validation_loss(model, rows),
        tokens=int(rows.size),
        random=top_k / experts,
        popularity=popularity_recall(routing, trained_shares),
        previous_token=previous_token_recall(routing),
        stale_gate=[stale_gate_recall(model, routing, horizon=h) for h in ahead],
        stale_gate_as_is=[stale_gate_recall(model, routing, horizon=h, stale_input="as-is") for h in ahead],
        usage_entropy=usage_entropy(shares),
        busiest_share=[float(value) for value in shares.max(1).values],
        dead_experts=[int(value) for value in (shares == 0).sum(1)],
    )


def report_command(
    checkpoint: Annotated[
        Path | None, typer.Argument(help="Checkpoint folder; by default the shipped one.")
    ] = None,
    streams: Annotated[int, typer.Option(min=1, help="Held-out streams of 256 tokens.")] = 64,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Report the loss and the predictability of the routing on files the model never saw."""
    from prescope.tiny import tiny_model_path

    try:
        result = report(tiny_model_path() if checkpoint is None else checkpoint, streams=streams)
    except (FileNotFoundError, ValueError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from error
    typer.echo(json.dumps(asdict(result), indent=2)) if as_json else _print(result)


def _print(result: TinyReport) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(
        title=f"loss {result.validation_loss:.3f} nats/token on {result.tokens:,} held-out tokens; "
        f"recall of the chosen experts (blind: {result.random:.3f})"
    )
    table.add_column("prediction")
    layers = len(result.popularity)
    for name in ("mean", "reference", *(f"layer {layer}" for layer in range(layers))):
        table.add_column(name, justify="right")

    def row(name: str, values: list[float], reference: str = "", *, digits: int = 2) -> None:
        mean = sum(values) / len(values)
        table.add_row(name, f"{mean:.{digits}f}", reference, *(f"{value:.{digits}f}" for value in values))

    row("popularity", result.popularity, f"{REFERENCE_POPULARITY:.2f}")
    row("previous token", result.previous_token, f"{REFERENCE_PREVIOUS_TOKEN:.2f}")
    for index, values in enumerate(result.stale_gate):
        reference = f"{REFERENCE_STALE_GATE[index]:.2f}" if index < len(REFERENCE_STALE_GATE) else ""
        row(f"stale gate, {index + 1} ahead", values, reference)
    for index, values in enumerate(result.stale_gate_as_is):
        row(f"the same, other norm, {index + 1} ahead", values)
    row("usage entropy (1: uniform)", result.usage_entropy)
    row("busiest expert's share", result.busiest_share, digits=3)
    row("experts never chosen", [float(count) for count in result.dead_experts], digits=0)
    Console(width=150).print(table)


if __name__ == "__main__":
    typer.run(report_command)
