"""``prescope generate``: text from a model whose experts stay on disk."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from prescope.runtime.plugin.load import LoadProgress
    from prescope.text_stream import TextStream


# Steps that a recording keeps: the newest of a longer run.
_MOST_STEPS = 512


def generate(
    path: Annotated[Path, typer.Argument(help="Folder of a saved transformers model.")],
    prompt: Annotated[str, typer.Option(help="Text to continue; - reads it from stdin.")],
    expert_memory: Annotated[str, typer.Option(help="Memory for experts, such as 512MiB or 4GiB.")] = "1GiB",
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Tokens to generate at most.")] = 128,
    policy: Annotated[str, typer.Option(help="What is kept and fetched.")] = "dp",
    residency: Annotated[
        str | None, typer.Option(help="Rule by which experts stay in memory [default: moving-average].")
    ] = None,
    costs: Annotated[
        Path | None, typer.Option(help="Measured costs (`prescope profile`); by default those in the folder.")
    ] = None,
    dtype: Annotated[str, typer.Option(help="float32, bfloat16 or float16; auto: the model's own.")] = "auto",
    temperature: Annotated[float, typer.Option(min=0, help="0 takes the likeliest token each time.")] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sampling and of the solver.")] = 0,
    recording: Annotated[
        Path | None,
        typer.Option(help="File (.json.gz) for the newest 512 steps in full (`prescope inspect`)."),
    ] = None,
    stats: Annotated[bool, typer.Option("--stats", help="Say at the end what it cost (stderr).")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON (docs/json.md).")] = False,
) -> None:
    """Generate text with the experts on disk and a fixed memory for them, as the text comes."""
    # Threads that wait for others must not spin: the cores are needed by those that read and compute.
    # torch reads this when it is first imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    from prescope.commands.documents import require_recording
    from prescope.commands.generation import generation_document, generation_summary
    from prescope.commands.notes import kept_notes
    from prescope.commands.output import print_json, progress_console
    from prescope.runtime.plugin.load import load
    from prescope.text_stream import TextStream

    if recording is not None:
        require_recording(recording)
    text = sys.stdin.read() if prompt == "-" else prompt
    tokenizer = _tokenizer(path)
    inputs = _encode(tokenizer, text)
    began = perf_counter_ns()
    with _progress() as observe:
        loaded = load(
            path,
            expert_memory,
            policy=policy,
            residency=residency,
            costs=costs,
            dtype=dtype,
            seed=seed,
            progress=observe,
        )
    load_ns = perf_counter_ns() - began
    show: Callable[[str], None] = (lambda piece: None) if as_json else _show
    if recording is not None:
        loaded.engine.keep_steps(min(max_new_tokens, _MOST_STEPS))
    with loaded, kept_notes() as notes:
        stream = TextStream(tokenizer, show, count_bytes=lambda: loaded.store.bytes_read)
        try:
            _run(loaded.model, inputs, stream, max_new_tokens, temperature=temperature, seed=seed)
            show("\n")
        except KeyboardInterrupt:
            show("\n")
            raise
        except BrokenPipeError:
            # The reader (`head`) has what it wanted, and that is no failure.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return
        if recording is not None:
            loaded.engine.write_recording(recording)
        document = generation_document(str(path), loaded, stream, load_ns=load_ns, notes=notes)
    if as_json:
        print_json(document)
        return
    stderr = progress_console()
    if stats:
        stderr.print(generation_summary(document), markup=False, soft_wrap=True)
    for note in document["degraded"]:
        stderr.print(f"note: {note}", markup=False, soft_wrap=True)


def _tokenizer(path: Path) -> Any:
    from prescope.runtime.plugin.load.model_config import read_config

    # First, because its messages are about this folder, and the tokenizer's about a hub.
    read_config(path)
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(path, local_files_only=True)
    except (ImportError, KeyError, RuntimeError, ValueError, OSError) as error:
        raise ValueError(f"{path}: expected a tokenizer that transformers can load, got {error}") from error


def _encode(tokenizer: Any, text: str) -> dict[str, Any]:
    encoded = tokenizer(text, return_tensors="pt")
    if encoded["input_ids"].numel() == 0:
        raise ValueError(f"expected a prompt of at least one token, got {text!r}")
    return {"input_ids": encoded["input_ids"], "attention_mask": encoded["attention_mask"]}


def _run(
    model: Any,
    inputs: dict[str, Any],
    stream: TextStream,
    max_new_tokens: int,
    *,
    temperature: float,
    seed: int,
) -> None:
    import torch

    settings: dict[str, Any] = {"do_sample": True, "temperature": temperature}
    if temperature == 0:
        # The sampling settings that a checkpoint brings would only be warned about.
        settings = {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
    if model.generation_config.pad_token_id is None:
        settings["pad_token_id"] = 0
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model.generate(**inputs, max_new_tokens=max_new_tokens, num_beams=1, streamer=stream, **settings)


def _show(piece: str) -> None:
    sys.stdout.write(piece)
    sys.stdout.flush()


@contextmanager
def _progress() -> Iterator[Callable[[LoadProgress], None]]:
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    from prescope.commands.output import progress_console

    stderr = progress_console()
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=stderr, disable=not stderr.is_terminal, transient=True) as bar:
        task = bar.add_task("reading dense weights", total=None)

        def observe(progress: LoadProgress) -> None:
            bar.update(task, completed=progress.done_bytes, total=progress.total_bytes)

        yield observe
