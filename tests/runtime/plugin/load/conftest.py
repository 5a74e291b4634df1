"""Saved random models, and models built from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import random_model

Save = Callable[..., Path]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """Write a random model to a folder, in shards where a size is given."""

    def write(
        family: str = "qwen3_moe",
        *,
        dtype: torch.dtype = torch.float32,
        shard: str | None = None,
        change: Callable[[Any], None] = lambda model: None,
    ) -> Path:
        from transformers.utils import logging

        logging.disable_progress_bar()
        model = random_model(family, dtype=dtype)
        change(model)
        folder = tmp_path / "checkpoint"
        model.save_pretrained(folder, **({} if shard is None else {"max_shard_size": shard}))
        return folder

    return write


@pytest.fixture
def rewrite() -> Callable[..., None]:
    """Change the tensors of a checkpoint's single file."""

    def change(folder: Path, edit: Callable[[dict[str, torch.Tensor]], None]) -> None:
        from safetensors.torch import load_file, save_file

        path = folder / "model.safetensors"
        tensors = load_file(path)
        edit(tensors)
        save_file(tensors, path, metadata={"format": "pt"})

    return change
