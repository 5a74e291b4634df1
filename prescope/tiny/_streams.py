"""Token streams of held-out text, from the shipped excerpts or from this installation's files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from prescope.tiny._batches import Tokens, encode_files, sequences
from prescope.tiny._checkpoint import read_provenance
from prescope.tiny._corpus import load_corpus

if TYPE_CHECKING:
    from prescope.tiny._excerpts import Excerpt


def shipped_streams(excerpts: Sequence[Excerpt], folder: Path, *, length: int) -> Tokens:
    """Encode excerpts with the tokenizer of the checkpoint in `folder`; int64 ``[count, length]``."""
    rows = [_tokenizer(folder).encode(excerpt.text) for excerpt in excerpts]
    shortest = min(map(len, rows))
    if not 1 <= length <= shortest:
        raise ValueError(
            f"expected length in [1, {shortest}] for shipped streams, got {length}; "
            "longer ones come with source='stdlib'"
        )
    return np.asarray([row[:length] for row in rows], dtype=np.int64)


def stdlib_streams(folder: Path, *, count: int, length: int, seed: int, heldout: bool = True) -> Tokens:
    """Cut streams from this installation's files, split as the checkpoint in `folder` was.

    With `heldout` false they come from the files trained on instead.
    """
    recipe = read_provenance(folder)["recipe"]
    corpus = load_corpus(
        heldout_fraction=recipe["heldout_fraction"],
        split_seed=recipe["split_seed"],
        train_bytes=recipe["train_bytes"],
    )
    files = corpus.heldout if heldout else corpus.train
    rng = np.random.default_rng(seed)
    if not heldout:
        files = tuple(files[index] for index in rng.permutation(len(files))[: len(corpus.heldout)])
    rows = sequences(encode_files(_tokenizer(folder), files), length=length, rng=rng)
    if not 1 <= count <= len(rows):
        raise ValueError(f"expected count in [1, {len(rows)}] streams of {length} tokens, got {count}")
    return rows[rng.permutation(len(rows))[:count]]


def _tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, local_files_only=True)
