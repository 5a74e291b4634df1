"""What is trained and how: the model's shape and the training recipe."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import Qwen3MoeConfig

PAD_TOKEN, PAD_ID = "<|pad|>", 0
EOS_TOKEN, EOS_ID = "<|endoftext|>", 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """Shape of the tiny Qwen3-MoE; the default has 7.0 million parameters, 1.5 million used per token."""

    vocab: int = 2048
    hidden: int = 128
    layers: int = 8
    experts: int = 32
    top_k: int = 4
    expert_hidden: int = 64
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 32
    max_positions: int = 1024
    initial_std: float = 0.06

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if name != "initial_std" and getattr(self, name) < 1:
                raise ValueError(f"expected {name} >= 1, got {getattr(self, name)}")
        if not self.initial_std > 0:
            raise ValueError(f"expected initial_std > 0, got {self.initial_std}")
        if self.vocab < 300:
            raise ValueError(f"expected vocab >= 300 (256 bytes, special tokens, merges), got {self.vocab}")
        if self.top_k > self.experts:
            raise ValueError(f"expected top_k in [1, {self.experts}], got {self.top_k}")
        if self.heads % self.kv_heads:
            raise ValueError(f"expected heads divisible by kv_heads {self.kv_heads}, got {self.heads}")

    def config(self) -> Qwen3MoeConfig:
        """Build the transformers configuration (every layer is a MoE layer, embeddings tied)."""
        from transformers import Qwen3MoeConfig

        return Qwen3MoeConfig(
            vocab_size=self.vocab,
            hidden_size=self.hidden,
            intermediate_size=2 * self.hidden,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            num_key_value_heads=self.kv_heads,
            head_dim=self.head_dim,
            num_experts=self.experts,
            num_experts_per_tok=self.top_k,
            moe_intermediate_size=self.expert_hidden,
            norm_topk_prob=True,
            decoder_sparse_step=1,
            mlp_only_layers=[],
            max_position_embeddings=self.max_positions,
            tie_word_embeddings=True,
            initializer_range=self.initial_std,
            pad_token_id=PAD_ID,
            eos_token_id=EOS_ID,
            bos_token_id=None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How the tiny model is trained.

    Attributes
    ----------
    steps : int
        Optimiser steps; the learning rate follows a cosine over them.
    batch_sequences, sequence_tokens : int
        Sequences per step and tokens per sequence.
    matrix_rate, embedding_rate, gate_rate : float
        Peak learning rates of the weight matrices (Muon), of the embedding and of the gates (AdamW).
    warmup_fraction, final_fraction : float
        Share of the run in which the rates rise, and the fraction of the peak left at the end.
    balance_weight : float
        Weight of the load-balancing loss: small, so that routing stays skewed but no expert dies.
    train_bytes : int, optional
        Use only about this many characters of training text.
    """

    shape: ModelShape = field(default_factory=ModelShape)
    seed: int = 0
    split_seed: int = 0
    heldout_fraction: float = 0.05
    train_bytes: int | None = None
    steps: int = 720
    batch_sequences: int = 6
    sequence_tokens: int = 256
    matrix_rate: float = 0.025
    embedding_rate: float = 0.02
    gate_rate: float = 0.006
    warmup_fraction: float = 0.04
    final_fraction: float = 0.02
    weight_decay: float = 0.1
    balance_weight: float = 0.01
    clip_norm: float = 1.0
    threads: int = 2

    def __post_init__(self) -> None:
        for name in ("steps", "batch_sequences", "threads"):
            if getattr(self, name) < 1:
                raise ValueError(f"expected {name} >= 1, got {getattr(self, name)}")
        if not 2 <= self.sequence_tokens <= self.shape.max_positions:
            raise ValueError(
                f"expected sequence_tokens in [2, {self.shape.max_positions}], got {self.sequence_tokens}"
            )
        for name in ("matrix_rate", "embedding_rate", "gate_rate", "clip_norm"):
            if not getattr(self, name) > 0:
                raise ValueError(f"expected {name} > 0, got {getattr(self, name)}")
        for name in ("weight_decay", "balance_weight", "seed", "split_seed"):
            if getattr(self, name) < 0:
                raise ValueError(f"expected {name} >= 0, got {getattr(self, name)}")
        for name in ("warmup_fraction", "final_fraction", "heldout_fraction"):
            if not 0.0 < getattr(self, name) < 1.0:
                raise ValueError(f"expected {name} in (0, 1), got {getattr(self, name)}")
