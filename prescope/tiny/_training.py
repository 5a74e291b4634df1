"""The training loop: seeded, observed, stopped by a number of steps or by a number of seconds."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from prescope.tiny._batches import batches, encode_files, sequences
from prescope.tiny._corpus import Corpus, load_corpus
from prescope.tiny._loss import balance_loss
from prescope.tiny._recipe import Recipe
from prescope.tiny._tokenizer import train_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from prescope.tiny._batches import Tokens

log = logging.getLogger(__name__)

VALIDATION_SEQUENCES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """State of a run after a step: `fraction` done in [0, 1], `loss` in nats per token."""

    step: int
    fraction: float
    loss: float
    rate_factor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """A trained model with what is needed to save and to judge it."""

    model: Any
    tokenizer: PreTrainedTokenizerFast
    corpus: Corpus
    heldout_rows: Tokens
    steps: int
    tokens: int
    training_s: float


def train(
    recipe: Recipe,
    *,
    seconds: float | None = None,
    corpus: Corpus | None = None,
    observe: Callable[[Progress], None] | None = None,
) -> Trained:
    """Train a tiny Qwen3-MoE from scratch on the standard library's sources.

    Parameters
    ----------
    recipe : Recipe
        Shape, seeds and hyper-parameters.
    seconds : float, optional
        Stop by the clock instead of after ``recipe.steps`` steps (the learning rate then follows the
        clock, so the result is not reproducible).
    corpus : Corpus, optional
        Text to use instead of this interpreter's standard library.
    observe : callable, optional
        Called after every step.

    Notes
    -----
    The same recipe, versions, thread count and machine give the same weights; other machines round
    differently and give others of the same quality.
    """
    if seconds is not None and not seconds > 0:
        raise ValueError(f"expected seconds > 0, got {seconds}")
    corpus = corpus or load_corpus(
        heldout_fraction=recipe.heldout_fraction,
        split_seed=recipe.split_seed,
        train_bytes=recipe.train_bytes,
    )
    tokenizer = train_tokenizer(
        (file.text for file in corpus.train),
        vocab=recipe.shape.vocab,
        max_tokens=recipe.shape.max_positions,
    )
    rng = np.random.default_rng(recipe.seed)
    stream = batches(
        encode_files(tokenizer, corpus.train),
        count=recipe.batch_sequences,
        length=recipe.sequence_tokens,
        rng=rng,
    )
    started = time.monotonic()
    with _torch_threads(recipe.threads):
        model, steps = _fit(recipe, stream, seconds=seconds, observe=observe)
    training_s = time.monotonic() - started
    return Trained(
        model=model,
        tokenizer=tokenizer,
        corpus=corpus,
        heldout_rows=heldout_rows(tokenizer, corpus, length=recipe.sequence_tokens),
        steps=steps,
        tokens=steps * recipe.batch_sequences * recipe.sequence_tokens,
        training_s=training_s,
    )


def heldout_rows(
    tokenizer: PreTrainedTokenizerFast, corpus: Corpus, *, length: int, count: int = VALIDATION_SEQUENCES
) -> Tokens:
    """Pick up to `count` held-out sequences ``[count, length]``, the same ones at every call."""
    rng = np.random.default_rng(0)
    rows = sequences(encode_files(tokenizer, corpus.heldout), length=length, rng=rng)
    return rows[rng.permutation(len(rows))[:count]]


def _fit(
    recipe: Recipe,
    stream: Iterator[Tokens],
    *,
    seconds: float | None,
    observe: Callable[[Progress], None] | None,
) -> tuple[Any, int]:
    import torch

    from prescope.tiny._muon import Optimizer

    model = _fresh_model(recipe)
    optimizer = Optimizer(
        model,
        matrix_rate=recipe.matrix_rate,
        embedding_rate=recipe.embedding_rate,
        gate_rate=recipe.gate_rate,
        weight_decay=recipe.weight_decay,
    )
    started = time.monotonic()
    step, fraction = 0, 0.0
    while fraction < 1.0:
        factor = schedule(fraction, recipe)
        ids = torch.from_numpy(next(stream))
        out = model(input_ids=ids, labels=ids, use_cache=False, output_router_logits=True)
        balance = balance_loss(out.router_logits, top_k=recipe.shape.top_k)
        # the model's own balancing term weighs nothing, see _fresh_model
        (out.loss + recipe.balance_weight * balance).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip_norm)
        optimizer.step(factor)
        step += 1
        fraction = step / recipe.steps if seconds is None else (time.monotonic() - started) / seconds
        if observe is not None:
            loss = float(out.loss.detach())
            observe(Progress(step=step, fraction=min(1.0, fraction), loss=loss, rate_factor=factor))
    model.eval()
    return model, step


def schedule(fraction: float, recipe: Recipe) -> float:
    """Multiplier of the learning rates: linear warm-up, then a cosine down to ``final_fraction``."""
    if fraction < recipe.warmup_fraction:
        return max(fraction, 0.02 * recipe.warmup_fraction) / recipe.warmup_fraction
    turn = (fraction - recipe.warmup_fraction) / (1.0 - recipe.warmup_fraction)
    cosine = 0.5 * (1.0 + math.cos(math.pi * min(1.0, turn)))
    return recipe.final_fraction + (1.0 - recipe.final_fraction) * cosine


def _fresh_model(recipe: Recipe) -> Any:
    import torch
    from transformers import Qwen3MoeForCausalLM

    config = recipe.shape.config()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        model = Qwen3MoeForCausalLM(config)
    model.set_experts_implementation("grouped_mm")
    model.router_aux_loss_coef = 0.0
    return model.train()


@contextmanager
def _torch_threads(count: int) -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
