"""Checkpoint folders: written whole or not at all, with provenance beside the weights."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prescope.tiny._loss import validation_loss
from prescope.tiny._recipe import Recipe

if TYPE_CHECKING:
    from prescope.tiny._training import Trained

WEIGHTS = "model.safetensors"
PROVENANCE = "training.json"


def save_checkpoint(
    trained: Trained, folder: Path, *, recipe: Recipe, overwrite: bool = False
) -> dict[str, Any]:
    """Write the model (fp16 safetensors), its tokenizer and ``training.json`` to `folder`.

    Everything is written beside `folder` first and moved into place at the end.

    Returns
    -------
    dict
        The content of ``training.json``. Its validation loss is that of the weights as saved (rounded to
        fp16, computed in fp32).

    Raises
    ------
    FileExistsError
        When `folder` exists and `overwrite` is false.
    """
    refuse_existing(folder, overwrite=overwrite)
    with _whole_folder(folder) as partial:
        _save_half(trained.model, partial)
        trained.tokenizer.save_pretrained(partial)
        record = _provenance(trained, partial, recipe=recipe)
        (partial / PROVENANCE).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return record


def refuse_existing(folder: Path, *, overwrite: bool) -> None:
    """Raise ``FileExistsError`` when `folder` is there and may not be replaced."""
    if folder.exists() and not overwrite:
        raise FileExistsError(
            f"expected a new folder, got {folder} which exists; choose another or overwrite"
        )
    if overwrite and folder.exists() and not (folder / PROVENANCE).is_file():
        raise FileExistsError(f"expected a checkpoint to overwrite, got {folder} without {PROVENANCE}")


def load_checkpoint(folder: Path, *, dtype: Any = None) -> tuple[Any, Any]:
    """Load the model (in `dtype`, float32 by default) and the tokenizer, from this folder alone.

    Raises
    ------
    FileNotFoundError
        When `folder` is not a checkpoint folder; the message names the missing file.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    for name in ("config.json", WEIGHTS, "tokenizer.json"):
        if not (folder / name).is_file():
            raise FileNotFoundError(f"expected a checkpoint with {name}, got {folder} without it")
    with _quiet_transformers():
        model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype or torch.float32, local_files_only=True
        )
    return model.eval(), AutoTokenizer.from_pretrained(folder, local_files_only=True)


def read_provenance(folder: Path) -> dict[str, Any]:
    """Read ``training.json`` of a checkpoint folder."""
    record: dict[str, Any] = json.loads((folder / PROVENANCE).read_text(encoding="utf-8"))
    return record


def weights_sha256(folder: Path) -> str:
    """SHA-256 (hex) of the weights file of a checkpoint folder."""
    return hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()


def _save_half(model: Any, folder: Path) -> None:
    import torch

    model.set_experts_implementation("eager")
    with _quiet_transformers():
        model.to(torch.float16).save_pretrained(folder)
    (folder / WEIGHTS).chmod(0o644)
    model.to(torch.float32)  # keeps the rounding, so what is judged is what was saved


def _provenance(trained: Trained, folder: Path, *, recipe: Recipe) -> dict[str, Any]:
    import tokenizers
    import torch
    import transformers

    return {
        "model": "Qwen3-MoE, trained from scratch",
        "parameters": sum(p.numel() for p in trained.model.parameters()),
        "steps": trained.steps,
        "tokens": trained.tokens,
        "wall_s": round(trained.training_s, 1),
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "validation_loss": round(validation_loss(trained.model, trained.heldout_rows), 4),
        "validation_tokens": int(trained.heldout_rows.size),
        "weights_sha256": weights_sha256(folder),
        "text": {
            "source": f"standard library of Python {platform.python_version()}",
            "licence": "PSF-2.0",
            "train_files": len(trained.corpus.train),
            "heldout_files": len(trained.corpus.heldout),
        },
        "machine": f"{os.cpu_count()} CPU cores, {platform.machine()}, {platform.system()}",
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "tokenizers": tokenizers.__version__,
        },
        "recipe": asdict(recipe),
    }


@contextmanager
def _quiet_transformers() -> Iterator[None]:
    """Without the progress bars transformers draws: for this model they pass in a blink."""
    from transformers.utils import logging as messages

    shown = messages.is_progress_bar_enabled()
    messages.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            messages.enable_progress_bar()


@contextmanager
def _whole_folder(folder: Path) -> Iterator[Path]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.partial-", dir=folder.parent))
    try:
        yield partial
        partial.chmod(0o755)
        if folder.exists():
            shutil.rmtree(folder)
        partial.replace(folder)
    except BaseException:  # an interrupt, too, leaves nothing half written
        shutil.rmtree(partial, ignore_errors=True)
        raise
