"""``prescope record``: keep a model's routing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from prescope.recording import RecordingSize


def record(
    model: Annotated[str, typer.Argument(help="'tiny', or the folder of a saved transformers model.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The trace file (.npz).")],
    prompts: Annotated[Path | None, typer.Option(help="Text file, one prompt a line.")] = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="Prompts to use; by default all of the file, else 32.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Prompts at once.")] = 8,
    tokens: Annotated[int, typer.Option(min=1, help="Tokens to generate for each.")] = 32,
    hidden: Annotated[
        bool,
        typer.Option(
            "--hidden",
            help="Keep the gating inputs too: 2 bytes per layer, channel and token. With 48 layers of 2048 "
            "channels that is 192 KiB a token, a hundred times the rest.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the shipped prompts.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON (docs/json.md).")] = False,
) -> None:
    """Record which experts a model chooses while it generates; `instances build` makes instances of it.

    Batches go to disk as they come; the trace appears when it is whole. How large it can become is said
    before anything is computed.
    """
    from prescope.commands.output import progress_console
    from prescope.commands.routing_log import answer, require_npz
    from prescope.models import open_model, read_prompts, shipped_prompts
    from prescope.recording import record_to_file, recording_size

    require_npz(output)
    texts = shipped_prompts(model, count or 32, seed=seed)[0] if prompts is None else read_prompts(prompts)
    if count is not None and len(texts) < count:
        raise ValueError(f"{prompts}: expected at least {count} prompts for --count, got {len(texts)}")
    texts = texts[:count]
    stderr = progress_console()

    def progress(done: int) -> None:
        stderr.print(f"... {done} of {len(texts)} prompts", style="dim")

    network, tokenizer = open_model(model)
    size = recording_size(network, tokenizer, texts, new_tokens=tokens, hidden=hidden)
    size.require_possible()
    stderr.print(_announcement(size), style="dim", soft_wrap=True)
    _warn_of_full_disk(size, output)
    recorded = record_to_file(
        network, tokenizer, texts, output, batch=batch, new_tokens=tokens, hidden=hidden, progress=progress
    )
    answer(
        {
            "model": recorded.model,
            "path": str(output),
            "tokens": recorded.tokens,
            "sequences": recorded.sequences,
            "layers": recorded.layers,
            "experts": recorded.experts,
            "top_k": recorded.top_k,
            "token_bytes": size.token_bytes,
            "hidden_bytes": size.hidden_bytes,
            "sha256": recorded.sha256,
        },
        as_json=as_json,
    )


def _announcement(size: RecordingSize) -> str:
    from prescope.formulation import format_bytes

    hidden = f", of which gating inputs {size.hidden_bytes}" if size.hidden_bytes else ""
    return (
        f"{size.token_bytes} bytes a token{hidden}; at most {size.tokens} tokens, "
        f"{format_bytes(size.size_bytes)} before compression"
    )


def _warn_of_full_disk(size: RecordingSize, output: Path) -> None:
    import shutil

    from prescope.commands.output import progress_console
    from prescope.formulation import format_bytes

    # The recording and the compressed file are there together for a while.
    free_bytes = shutil.disk_usage(output.parent).free
    if 2 * size.size_bytes > free_bytes:
        progress_console().print(
            f"{output.parent} has {format_bytes(free_bytes)} free; recording and trace together may need "
            f"{format_bytes(2 * size.size_bytes)}",
            style="yellow",
            markup=False,
            soft_wrap=True,
        )
