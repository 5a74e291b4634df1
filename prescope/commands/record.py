"""``prescope record``: keep a model's routing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def record(
    model: Annotated[str, typer.Argument(help="'tiny', or the folder of a saved transformers model.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The trace file (.npz).")],
    prompts: Annotated[Path | None, typer.Option(help="Text file, one prompt a line.")] = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="Prompts to use; by default all of the file, else 32.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Prompts at once.")] = 8,
    tokens: Annotated[int, typer.Option(min=1, help="Tokens to generate for each.")] = 32,
    hidden: Annotated[bool, typer.Option("--hidden", help="Keep the gating inputs too.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the shipped prompts.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON (docs/json.md).")] = False,
) -> None:
    """Record which experts a model chooses while it generates; `instances build` makes instances of it."""
    from prescope.commands.output import console, print_json, progress_console
    from prescope.instances import write_trace
    from prescope.models import open_model, read_prompts, shipped_prompts
    from prescope.recording import record_routing

    if output.suffix != ".npz":
        raise ValueError(f"expected an output name ending in .npz, got {output}")
    texts = shipped_prompts(model, count or 32, seed=seed)[0] if prompts is None else read_prompts(prompts)
    if count is not None and len(texts) < count:
        raise ValueError(f"{prompts}: expected at least {count} prompts for --count, got {len(texts)}")
    texts = texts[:count]
    stderr = progress_console()

    def progress(done: int) -> None:
        stderr.print(f"... {done} of {len(texts)} prompts", style="dim")

    network, tokenizer = open_model(model)
    trace = record_routing(
        network, tokenizer, texts, batch=batch, new_tokens=tokens, hidden=hidden, progress=progress
    )
    sha256 = write_trace(output, trace)
    facts = {
        "model": trace.meta.model,
        "path": str(output),
        "tokens": trace.tokens,
        "sequences": trace.sequences,
        "layers": trace.layers,
        "experts": trace.meta.experts,
        "top_k": trace.meta.top_k,
        "sha256": sha256,
    }
    if as_json:
        print_json(facts)
    else:
        console().print(
            f"{trace.tokens} tokens of {trace.sequences} sequences in {output}", markup=False, soft_wrap=True
        )
