"""The matrices of every expert of one layer, whichever way the checkpoint stores them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from prescope.runtime.disk.checkpoint import Checkpoint
from prescope.runtime.disk.dtypes import ITEM_BYTES, PLAIN_FLOATS
from prescope.runtime.disk.errors import CheckpointError
from prescope.runtime.disk.expert_keys import ExpertKey, Matrix
from prescope.runtime.disk.header import TensorEntry


class Piece(NamedTuple):
    """One matrix of one expert on the disk."""

    entry: TensorEntry
    """The tensor that holds it."""
    shape: tuple[int, int]
    """Its rows and columns."""
    offset_bytes: int
    """Where it begins in the file."""


def number_of_experts(checkpoint: Checkpoint, keys: Sequence[ExpertKey]) -> int:
    """How many experts the tensors of one layer are for.

    Raises
    ------
    CheckpointError
        When some of them have no tensor at all.
    """
    named = {key.expert for key in keys if key.expert is not None}
    if named and max(named) >= len(named):
        # Before anything is made for that many: the number comes from a name and may be absurd.
        raise _missing(checkpoint, keys, min(set(range(len(named))) - named), Matrix.GATE)
    return max([len(named), *(_fused_entry(checkpoint, key).shape[0] for key in keys if key.expert is None)])


def layer_pieces(
    checkpoint: Checkpoint, keys: Sequence[ExpertKey], *, experts: int
) -> tuple[dict[Matrix, Piece], ...]:
    """The matrices of each expert of one layer: ``DOWN`` and either ``GATE_UP`` or ``GATE`` and ``UP``.

    Raises
    ------
    CheckpointError
        When one is missing, stored twice, of an expert out of range, no matrix, or quantised.
    """
    pieces: tuple[dict[Matrix, Piece], ...] = tuple({} for _ in range(experts))
    for key in keys:
        for expert, piece in _pieces(checkpoint, key, experts):
            if key.matrix in pieces[expert]:
                raise CheckpointError(
                    f"{piece.entry.file}: {key.name}: expected expert {expert} once, got it in "
                    f"{pieces[expert][key.matrix].entry.name} too"
                )
            pieces[expert][key.matrix] = piece
    for expert, found in enumerate(pieces):
        _check_complete(checkpoint, keys, expert, found)
    return pieces


def _pieces(checkpoint: Checkpoint, key: ExpertKey, experts: int) -> list[tuple[int, Piece]]:
    entry = checkpoint.tensor(key.name)
    if entry.dtype not in PLAIN_FLOATS:
        raise CheckpointError(
            f"{entry.file}: {key.name}: expected {', '.join(PLAIN_FLOATS)}, got {entry.dtype}: "
            "quantised experts are not supported, use a bfloat16, float16 or float32 checkpoint"
        )
    if key.expert is None:
        shape = _fused_entry(checkpoint, key).shape
        if shape[0] != experts:
            raise CheckpointError(
                f"{entry.file}: {key.name}: expected {experts} experts, got {shape[0]}: "
                "the configuration does not fit the files"
            )
        each = shape[1] * shape[2] * ITEM_BYTES[entry.dtype]
        return [
            (expert, Piece(entry, (shape[1], shape[2]), entry.offset_bytes + expert * each))
            for expert in range(experts)
        ]
    if key.expert >= experts:
        raise CheckpointError(
            f"{entry.file}: {key.name}: expected an expert in [0, {experts - 1}], got {key.expert}: "
            "the configuration does not fit the files"
        )
    if len(entry.shape) != 2:
        raise CheckpointError(f"{entry.file}: {key.name}: expected a matrix, got shape {list(entry.shape)}")
    return [(key.expert, Piece(entry, (entry.shape[0], entry.shape[1]), entry.offset_bytes))]


def _fused_entry(checkpoint: Checkpoint, key: ExpertKey) -> TensorEntry:
    entry = checkpoint.tensor(key.name)
    if len(entry.shape) != 3:
        raise CheckpointError(
            f"{entry.file}: {key.name}: expected [experts, rows, columns], got shape {list(entry.shape)}"
        )
    if 0 in entry.shape:
        raise CheckpointError(
            f"{entry.file}: {key.name}: expected some weights, got shape {list(entry.shape)}"
        )
    return entry


def _check_complete(
    checkpoint: Checkpoint, keys: Sequence[ExpertKey], expert: int, found: dict[Matrix, Piece]
) -> None:
    if Matrix.GATE_UP in found and (Matrix.GATE in found or Matrix.UP in found):
        piece = found[Matrix.GATE_UP]
        raise CheckpointError(
            f"{piece.entry.file}: {piece.entry.name}: expected gate and up either fused or apart, got both "
            f"for expert {expert}"
        )
    wanted = {Matrix.DOWN} | ({Matrix.GATE_UP} if Matrix.GATE_UP in found else {Matrix.GATE, Matrix.UP})
    for matrix in (Matrix.GATE, Matrix.UP, Matrix.GATE_UP, Matrix.DOWN):
        if matrix in wanted - set(found):
            raise _missing(checkpoint, keys, expert, matrix)


def _missing(
    checkpoint: Checkpoint, keys: Sequence[ExpertKey], expert: int, matrix: Matrix
) -> CheckpointError:
    return CheckpointError(
        f"{checkpoint.source}: {_name_of(keys, expert, matrix)}: expected this tensor for expert {expert} of "
        f"decoder layer {keys[0].decoder_layer}, got none (others of the layer are in "
        f"{checkpoint.tensor(keys[0].name).file.name}): fetch the checkpoint again"
    )


def _name_of(keys: Sequence[ExpertKey], expert: int, matrix: Matrix) -> str:
    """The name a missing tensor would have, by the example of its siblings."""
    words = {
        Matrix.GATE: ("gate_proj", "w1"),
        Matrix.UP: ("up_proj", "w3"),
        Matrix.DOWN: ("down_proj", "w2"),
        Matrix.GATE_UP: ("gate_up_proj", "gate_up_proj"),
    }[matrix]
    example = keys[0]
    stem = example.name.rpartition(".experts.")[0] + ".experts"
    if example.expert is None:
        return f"{stem}.{words[0]}"
    like_mixtral = example.name.endswith((".w1.weight", ".w2.weight", ".w3.weight"))
    return f"{stem}.{expert}.{words[like_mixtral]}.weight"
