"""A tokenizer of one token per letter, for random models."""

from typing import Any

import torch


class ToyTokenizer:
    """Letters become ids from 6 on; pads on the left with 0."""

    pad_token_id = 0
    padding_side = "left"

    def __call__(self, texts: list[str], return_tensors: str, padding: bool) -> dict[str, Any]:
        rows = [[6 + ord(letter) % 90 for letter in text] for text in texts]
        longest = max(len(row) for row in rows)
        ids = [[0] * (longest - len(row)) + row for row in rows]
        mask = [[0] * (longest - len(row)) + [1] * len(row) for row in rows]
        return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}

    def decode(self, ids: torch.Tensor, skip_special_tokens: bool) -> str:
        return " ".join(str(int(token)) for token in ids)
