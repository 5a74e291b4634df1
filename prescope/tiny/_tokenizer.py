"""Byte-level BPE trained on the training files, kept as an ordinary fast tokenizer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from prescope.tiny._recipe import EOS_ID, EOS_TOKEN, PAD_ID, PAD_TOKEN

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


def train_tokenizer(texts: Iterable[str], *, vocab: int, max_tokens: int) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE; any text can be encoded and decodes to itself.

    Parameters
    ----------
    texts : iterable of str
        Training texts only: held-out files must not shape the vocabulary.
    vocab : int
        Size of the vocabulary, special tokens included.
    max_tokens : int
        Longest sequence the model takes; the tokenizer warns beyond it.

    Returns
    -------
    PreTrainedTokenizerFast
        Pads on the left (for generation); adds no token of its own when it encodes.

    Raises
    ------
    ValueError
        When the text is too small to fill the vocabulary.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab,
        special_tokens=[PAD_TOKEN, EOS_TOKEN],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    if bpe.get_vocab_size() != vocab:
        raise ValueError(f"expected text enough for {vocab} tokens, got {bpe.get_vocab_size()}")
    if (bpe.token_to_id(PAD_TOKEN), bpe.token_to_id(EOS_TOKEN)) != (PAD_ID, EOS_ID):
        raise ValueError(f"expected {PAD_TOKEN} and {EOS_TOKEN} at ids {PAD_ID} and {EOS_ID}")
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        pad_token=PAD_TOKEN,
        eos_token=EOS_TOKEN,
        padding_side="left",
        model_max_length=max_tokens,
        clean_up_tokenization_spaces=False,
    )
