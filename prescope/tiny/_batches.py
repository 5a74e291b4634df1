"""Token streams cut into training sequences, in an order given by the seed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from prescope.tiny._corpus import SourceFile
from prescope.tiny._recipe import EOS_ID

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

Tokens = npt.NDArray[np.int64]


def encode_files(tokenizer: PreTrainedTokenizerFast, files: Sequence[SourceFile]) -> list[Tokens]:
    """Encode each file, followed by the end-of-text token; one int64 array per file, in order."""
    texts = [file.text for file in files]
    # verbose=False: whole files are longer than the model takes, they are cut later
    encoded = tokenizer(texts, return_attention_mask=False, verbose=False)["input_ids"]
    return [np.asarray([*ids, EOS_ID], dtype=np.int64) for ids in encoded]


def sequences(streams: Sequence[Tokens], *, length: int, rng: np.random.Generator) -> Tokens:
    """Join the files in a random order and cut them into ``[count, length]``; the rest is dropped.

    Raises
    ------
    ValueError
        When the text does not fill one sequence.
    """
    joined = np.concatenate([streams[index] for index in rng.permutation(len(streams))])
    count = len(joined) // length
    if count == 0:
        raise ValueError(f"expected at least {length} tokens of text, got {len(joined)}")
    return joined[: count * length].reshape(count, length)


def batches(
    streams: Sequence[Tokens], *, count: int, length: int, rng: np.random.Generator
) -> Iterator[Tokens]:
    """Yield ``[count, length]`` batches for ever; every pass cuts and shuffles the text anew."""
    while True:
        rows = sequences(streams, length=length, rng=rng)
        if len(rows) < count:
            raise ValueError(f"expected text for {count} sequences of {length} tokens, got {len(rows)}")
        order = rng.permutation(len(rows))
        for start in range(0, len(rows) - count + 1, count):
            yield rows[order[start : start + count]]
