"""Generating, and comparing what was generated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Generated:
    """New tokens of a batch.

    Parameters
    ----------
    tokens
        int64 ``[batch, new]``, prompts not included.
    real
        Which of them count, bool ``[batch, new]``: everything up to a row's end-of-text token, that included.
    """

    tokens: Tensor
    real: Tensor

    def equals(self, other: Generated) -> bool:
        """Whether both have the same tokens at all real positions."""
        if not torch.equal(self.real, other.real):
            return False
        return torch.equal(self.tokens[self.real], other.tokens[other.real])

    def texts(self, tokenizer: Any) -> tuple[str, ...]:
        """The real tokens as text."""
        return tuple(
            str(tokenizer.decode(row[keep], skip_special_tokens=True))
            for row, keep in zip(self.tokens, self.real, strict=True)
        )


def encode(tokenizer: Any, prompts: Sequence[str]) -> dict[str, Tensor]:
    """Tokens of prompts, padded on the left.

    Raises
    ------
    ValueError
        When there is no prompt, or one without a token.
    """
    if not prompts:
        raise ValueError("expected at least one prompt, got none")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    tokenizer.padding_side = "left"
    encoded = tokenizer(list(prompts), return_tensors="pt", padding=True)
    mask: Tensor = encoded["attention_mask"]
    if not mask.any(dim=1).all():
        empty = int((~mask.any(dim=1)).nonzero()[0])
        raise ValueError(f"expected prompts of at least one token, got {prompts[empty]!r} in place {empty}")
    return {"input_ids": encoded["input_ids"], "attention_mask": mask}


def generate(model: Any, inputs: dict[str, Tensor], new_tokens: int) -> Generated:
    """Continue a batch greedily by up to ``new_tokens`` tokens."""
    ends = _end_ids(model)
    with torch.no_grad():
        output = model.generate(
            **inputs,
            max_new_tokens=new_tokens,
            do_sample=False,
            num_beams=1,
            pad_token_id=model.generation_config.pad_token_id or (ends[0] if ends else 0),
        )
    tokens = output[:, inputs["input_ids"].shape[1] :]
    ended = torch.isin(tokens, torch.tensor(ends, dtype=tokens.dtype)).cumsum(dim=1)
    # Real until the first end token, that one included.
    before = torch.cat([torch.zeros_like(ended[:, :1]), ended[:, :-1]], dim=1)
    return Generated(tokens=tokens, real=before == 0)


def _end_ids(model: Any) -> list[int]:
    ends = model.generation_config.eos_token_id
    if ends is None:
        return []
    return [int(end) for end in ends] if isinstance(ends, (list, tuple)) else [int(ends)]
