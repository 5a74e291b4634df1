"""The tiny real model: a Qwen3-MoE of 7 million parameters, trained on the standard library's sources.

It is shipped with the package, so that everything which needs a real Mixture-of-Experts model runs at once,
without a model hub; ``python -m prescope.tiny.train`` makes it again from nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import torch

__all__ = ["heldout_streams", "load_tiny", "prompts", "tiny_llapor_path", "tiny_model_path"]


def tiny_model_path() -> Path:
    """Folder of the shipped checkpoint, in the ordinary transformers layout.

    Raises
    ------
    FileNotFoundError
        When the package was installed without its data.
    """
    path = Path(__file__).parent / "data" / "tiny-qwen3-moe"
    if not (path / "config.json").is_file():
        raise FileNotFoundError(
            f"expected the shipped checkpoint at {path}, got none; "
            "make one with `python -m prescope.tiny.train -o FOLDER` and name that folder instead"
        )
    return path


def tiny_llapor_path() -> Path:
    """Folder of the shipped LLaPor checkpoint, trained for the shipped model.

    Raises
    ------
    FileNotFoundError
        When the package was installed without its data.
    """
    path = Path(__file__).parent / "data" / "tiny-llapor"
    if not (path / "predictor.json").is_file():
        raise FileNotFoundError(
            f"expected the shipped predictor at {path}, got none; "
            "make one with `prescope train tiny -o FOLDER` and name it 'llapor:FOLDER' instead"
        )
    return path


def load_tiny(dtype: torch.dtype | None = None, *, path: Path | None = None) -> tuple[Any, Any]:
    """Load the model, in evaluation mode, and its tokenizer (which pads on the left).

    Parameters
    ----------
    dtype : torch.dtype, optional
        Of the weights; float32 by default (they are stored as fp16).
    path : Path, optional
        Another checkpoint folder than the shipped one.

    Returns
    -------
    model : Qwen3MoeForCausalLM
    tokenizer : PreTrainedTokenizerFast

    Raises
    ------
    FileNotFoundError
        When the folder is not a checkpoint.
    """
    from prescope.tiny._checkpoint import load_checkpoint

    return load_checkpoint(tiny_model_path() if path is None else path, dtype=dtype)


def prompts(count: int, seed: int = 0) -> list[str]:
    """Pick prompts of 12 to 24 tokens from files the model never saw.

    Parameters
    ----------
    count : int
        How many, at most 96; all different.
    seed : int
        Another seed, another choice.

    Raises
    ------
    ValueError
        When more are asked for than are shipped.
    """
    return [excerpt.prompt for excerpt in _chosen(count, seed)]


def heldout_streams(
    count: int,
    *,
    length: int = 64,
    seed: int = 0,
    source: Literal["shipped", "stdlib"] = "shipped",
    path: Path | None = None,
) -> npt.NDArray[np.int64]:
    """Token streams from files the model never saw, for teacher forcing.

    Parameters
    ----------
    count : int
        Number of streams; at most 96 when shipped.
    length : int
        Tokens per stream; at most 64 when shipped.
    seed : int
        Another seed, another choice.
    source : {"shipped", "stdlib"}
        ``shipped`` is the same on every machine; ``stdlib`` reads the held-out files of this Python
        installation (hence depends on its version) and gives streams of any length.
    path : Path, optional
        Checkpoint folder whose tokenizer is used; the shipped one by default.

    Returns
    -------
    ndarray
        int64 ``[count, length]``.

    Raises
    ------
    ValueError
        When the source does not hold that many streams of that length.
    """
    from prescope.tiny._streams import shipped_streams, stdlib_streams

    folder = tiny_model_path() if path is None else path
    if source == "shipped":
        return shipped_streams(_chosen(count, seed), folder, length=length)
    if source == "stdlib":
        return stdlib_streams(folder, count=count, length=length, seed=seed)
    raise ValueError(f"expected source 'shipped' or 'stdlib', got {source!r}")


def _chosen(count: int, seed: int) -> list[Any]:
    import numpy as np

    from prescope.tiny._excerpts import read_excerpts

    excerpts = read_excerpts()
    if not 1 <= count <= len(excerpts):
        raise ValueError(f"expected count in [1, {len(excerpts)}], got {count}")
    return [excerpts[index] for index in np.random.default_rng(seed).permutation(len(excerpts))[:count]]
