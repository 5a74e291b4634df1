"""Opening a model by name, and prompts for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

TINY = "tiny"


def open_model(name: str) -> tuple[Any, Any]:
    """Load a model and its tokenizer from this machine; nothing is downloaded.

    Parameters
    ----------
    name
        ``"tiny"`` for the model that comes with the package, else the folder of a saved transformers model.

    Raises
    ------
    ValueError
        When there is no such folder, or no model in it that transformers can load.
    """
    if name == TINY:
        from prescope.tiny import load_tiny

        return load_tiny()
    if not (Path(name) / "config.json").is_file():
        raise ValueError(
            f"expected 'tiny' or the folder of a saved transformers model (with config.json), got {name!r}"
        )
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(name, local_files_only=True)
        model = AutoModelForCausalLM.from_pretrained(name, local_files_only=True, dtype="auto")
    except (ImportError, KeyError, RuntimeError) as error:
        raise ValueError(f"expected a model that transformers can load in {name}, got {error}") from error
    return model.eval(), tokenizer


def prompts_for(name: str, count: int, *, seed: int) -> list[str]:
    """Prompts that come with the tiny model.

    Raises
    ------
    ValueError
        For any other model.
    """
    if name != TINY:
        raise ValueError(f"expected --prompts FILE with a prompt a line for the model {name}, got none")
    from prescope.tiny import prompts

    return list(prompts(count, seed))


def read_prompts(path: Path) -> list[str]:
    """Prompts from a text file, one a line; empty lines are left out, ``\\n`` in a line is a line break.

    Raises
    ------
    ValueError
        When the file holds none or is not UTF-8 text.
    OSError
        When it cannot be read.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: expected UTF-8 text, got {error}") from error
    found = [line.replace("\\n", "\n") for line in lines if line.strip()]
    if not found:
        raise ValueError(f"{path}: expected a prompt a line, got none")
    return found
