"""Recorded routing: which experts every token of every sequence was sent to."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from prescope.formulation.checks import require_int

NOT_RECORDED = -1
"""Expert id of an entry, or token id of a position, that was not recorded."""

_BLOCK = 1 << 16


class Phase(IntEnum):
    """What a token was part of."""

    PREFILL = 0
    DECODE = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceMeta:
    """What a trace was recorded from.

    Parameters
    ----------
    model
        Name of the model.
    experts, top_k
        Experts per layer, and experts per token at most.
    fingerprint
        Identifies the weights; empty when not known.
    tokenizer
        Identifies the tokenizer; empty when not known.
    source
        Who or what recorded it, from which text, under which licence.
    notes
        Anything else worth knowing.
    """

    model: str
    experts: int
    top_k: int
    fingerprint: str = ""
    tokenizer: str = ""
    source: str = ""
    notes: str = ""

    def __post_init__(self) -> None:
        require_int("experts", self.experts, 1, np.iinfo(np.int16).max)
        require_int("top_k", self.top_k, 1, self.experts)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RoutingTrace:
    """Routing of ``T`` tokens through ``L`` MoE layers, ``K`` experts each.

    Arrays become read-only copies; read-only ones of the right type that own their memory are kept as they
    are.

    Parameters
    ----------
    topk_ids
        Chosen experts, int16 ``[T, L, K]``; `NOT_RECORDED` where unknown, otherwise distinct per token and
        layer.
    topk_weights
        Their routing weights, float16 or float32 ``[T, L, K]``, finite.
    seq_offsets
        Sequence ``s`` is the tokens ``seq_offsets[s] .. seq_offsets[s + 1]``, int64 ``[S + 1]``.
    phase
        `Phase` of each token, uint8 ``[T]``.
    padding
        True for tokens that are padding, bool ``[T]``; by default none. They count nowhere.
    hidden
        Gating inputs, float16 or float32 ``[T, L, H]``.
    token_ids
        Token of the vocabulary that each position was given, int32 ``[T]``; `NOT_RECORDED` where unknown.
    expert_bytes, dense_bytes
        Bytes of one expert, and of everything else, per layer; int64 ``[L]``.
    meta
        What it was recorded from.
    """

    topk_ids: npt.NDArray[np.int16]
    seq_offsets: npt.NDArray[np.int64]
    phase: npt.NDArray[np.uint8]
    meta: TraceMeta
    topk_weights: npt.NDArray[np.floating[Any]] | None = None
    padding: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    hidden: npt.NDArray[np.floating[Any]] | None = None
    token_ids: npt.NDArray[np.int32] | None = None
    expert_bytes: npt.NDArray[np.int64] | None = None
    dense_bytes: npt.NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        ids = self._integers("topk_ids", (None, None, None), -1, self.meta.experts - 1, np.int16)
        tokens, layers, width = ids.shape
        if 0 in ids.shape or width > self.meta.experts:
            raise ValueError(
                f"expected topk_ids of shape [tokens, layers, k] with 1 <= k <= {self.meta.experts} experts, "
                f"tokens and layers >= 1, got {ids.shape}"
            )
        if width != self.meta.top_k:
            raise ValueError(f"expected topk_ids of width top_k={self.meta.top_k}, got {width}")
        _require_distinct(ids)
        offsets = self._integers("seq_offsets", (None,), 0, tokens, np.int64)
        if len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != tokens or (np.diff(offsets) < 1).any():
            raise ValueError(f"expected seq_offsets rising from 0 to {tokens}, got {_preview(offsets)}")
        self._integers("phase", (tokens,), 0, 1, np.uint8)
        if self.padding.size == 0:
            object.__setattr__(self, "padding", np.zeros(tokens, dtype=np.bool_))
        self._require("padding", self.padding, (tokens,), "b")
        self._own("padding", self.padding, np.bool_)
        self._floats("topk_weights", (tokens, layers, width))
        self._floats("hidden", (tokens, layers, None))
        if self.token_ids is not None:
            self._integers("token_ids", (tokens,), NOT_RECORDED, np.iinfo(np.int32).max, np.int32)
        for name in ("expert_bytes", "dense_bytes"):
            if getattr(self, name) is not None:
                self._integers(name, (layers,), 1 if name == "expert_bytes" else 0, 2**50, np.int64)

    @property
    def tokens(self) -> int:
        """Number of tokens, padding included."""
        return int(self.topk_ids.shape[0])

    @property
    def layers(self) -> int:
        """Number of MoE layers."""
        return int(self.topk_ids.shape[1])

    @property
    def sequences(self) -> int:
        """Number of sequences."""
        return len(self.seq_offsets) - 1

    def _integers(
        self, name: str, shape: tuple[int | None, ...], low: int, high: int, dtype: type[np.integer[Any]]
    ) -> npt.NDArray[Any]:
        array = getattr(self, name)
        self._require(name, array, shape, "iu")
        if array.size and (int(array.min()) < low or int(array.max()) > high):
            raise ValueError(
                f"expected {name} in [{low}, {high}], got values in [{array.min()}, {array.max()}]"
            )
        return self._own(name, array, dtype)

    def _floats(self, name: str, shape: tuple[int | None, ...]) -> None:
        array = getattr(self, name)
        if array is None:
            return
        tokens = self.tokens
        self._require(name, array, shape, "f")
        if array.dtype.itemsize not in (2, 4):
            raise ValueError(f"expected {name} in float16 or float32, got {array.dtype}")
        if not all(np.isfinite(array[at : at + _BLOCK]).all() for at in range(0, tokens, _BLOCK)):
            raise ValueError(f"expected finite {name}, got NaN or infinity")
        self._own(name, array, array.dtype.newbyteorder("=").type)

    def _require(self, name: str, array: Any, shape: tuple[int | None, ...], kinds: str) -> None:
        if not isinstance(array, np.ndarray) or array.dtype.kind not in kinds:
            got = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
            wanted = {"b": "boolean", "iu": "integer", "f": "floating"}[kinds]
            raise ValueError(f"expected {name} to be a {wanted} array, got {got}")
        same_rank = array.ndim == len(shape)
        if not same_rank or any(
            want not in (None, got) for want, got in zip(shape, array.shape, strict=True)
        ):
            wanted = ", ".join("any" if size is None else str(size) for size in shape)
            raise ValueError(f"expected {name} of shape [{wanted}], got {array.shape}")

    def _own(self, name: str, array: npt.NDArray[Any], dtype: type[Any]) -> npt.NDArray[Any]:
        # Large traces exist once: what nobody can write to is not copied.
        if array.flags.writeable or not array.flags.owndata or array.dtype != np.dtype(dtype):
            array = np.array(array, dtype=dtype)
            array.flags.writeable = False
        object.__setattr__(self, name, array)
        return array


def _require_distinct(ids: npt.NDArray[np.int16]) -> None:
    for start in range(0, len(ids), _BLOCK):
        twice = twice_chosen(ids[start : start + _BLOCK])
        if twice.any():
            token, layer = (int(at) for at in np.argwhere(twice)[0])
            raise ValueError(
                f"expected distinct experts per token and layer, got {ids[start + token, layer].tolist()} "
                f"for token {start + token} in layer {layer}"
            )


def twice_chosen(ids: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Where an expert is among the ``[..., k]`` chosen ones more than once, bool ``[...]``."""
    ordered = np.sort(ids, axis=-1)
    twice: npt.NDArray[np.bool_] = ((ordered[..., 1:] == ordered[..., :-1]) & (ordered[..., 1:] >= 0)).any(-1)
    return twice


def _preview(array: npt.NDArray[Any]) -> str:
    return f"{array[:4].tolist()}{' ...' if len(array) > 4 else ''} of length {len(array)}"
