"""Opening a model by name, and prompts for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

TINY = "tiny"
OTHER_PROMPTS = 32
"""Prompts that choose the residents."""

_SHIPPED = 96


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


def named_predictor(model: str, predictor: str) -> str:
    """The predictor's name with its folder: ``"llapor"`` alone is the one that comes with the tiny model.

    Raises
    ------
    ValueError
        When it is asked for with another model.
    """
    if predictor not in ("llapor", "llapor+tune"):
        return predictor
    if model != TINY:
        raise ValueError(
            f"expected 'llapor:FOLDER' for the model {model}, got {predictor!r}: "
            "train one with `prescope train`"
        )
    from prescope.tiny import tiny_llapor_path

    return f"llapor:{tiny_llapor_path()}{predictor.removeprefix('llapor')}"


def shipped_prompts(name: str, count: int, *, seed: int) -> tuple[list[str], list[str]]:
    """Prompts that come with the tiny model: ``count`` to measure with, and others that choose residents.

    Raises
    ------
    ValueError
        For any other model, or when there are not so many.
    """
    if name != TINY:
        raise ValueError(f"expected a file of prompts, one a line, for the model {name}, got none")
    if count > _SHIPPED - OTHER_PROMPTS:
        raise ValueError(
            f"expected at most {_SHIPPED - OTHER_PROMPTS} of the tiny model's prompts, got {count}; "
            "name a file of prompts for more"
        )
    from prescope.tiny import prompts

    # From the end: the same ones, hence the same residents, for every batch size.
    chosen = prompts(_SHIPPED, seed)
    return chosen[:count], chosen[-OTHER_PROMPTS:]


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
