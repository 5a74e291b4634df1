"""Where the weights of each expert lie on the disk, and where they belong in its row."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from prescope.runtime.disk.checkpoint import Checkpoint
from prescope.runtime.disk.dtypes import ITEM_BYTES
from prescope.runtime.disk.errors import CheckpointError
from prescope.runtime.disk.expert_keys import ExpertKey, Matrix, expert_keys
from prescope.runtime.disk.pieces import Piece, layer_pieces, number_of_experts

_DOES_NOT_FIT = "the configuration does not fit the files"


class Segment(NamedTuple):
    """Consecutive elements of a row that are consecutive in a file; a tuple, for there are many."""

    file: int
    """Index into the checkpoint's files."""
    dtype: str
    """Element type in the file."""
    offset_bytes: int
    """Where it begins in the file."""
    first: int
    """Where it begins in the row, in elements."""
    elements: int
    """Number of elements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertLayout:
    """Where all experts lie.

    Parameters
    ----------
    decoder_layers
        Index of each MoE layer among all decoder layers, ascending.
    experts
        Experts per layer.
    gate_up_shapes, down_shapes
        Per MoE layer, ``(2I, H)`` and ``(H, I)`` of one expert.
    segments
        ``[layer][expert]``: what fills its row, by ascending place on the disk.
    names
        All tensors that belong to experts.
    dtypes
        Element types found, as files name them.
    """

    decoder_layers: tuple[int, ...]
    experts: int
    gate_up_shapes: tuple[tuple[int, int], ...]
    down_shapes: tuple[tuple[int, int], ...]
    segments: tuple[tuple[tuple[Segment, ...], ...], ...]
    names: frozenset[str]
    dtypes: frozenset[str]


def expert_layout(
    checkpoint: Checkpoint,
    *,
    layers: int | None = None,
    experts: int | None = None,
    gate_up_shape: tuple[int, int] | None = None,
    down_shape: tuple[int, int] | None = None,
) -> ExpertLayout:
    """Find all experts of a checkpoint.

    Parameters
    ----------
    checkpoint
        The tensors.
    layers, experts, gate_up_shape, down_shape
        What the model's configuration says of the number of MoE layers, experts per layer, and the matrices
        of one expert, ``(2I, H)`` and ``(H, I)``; ``None`` to take what the files say.

    Raises
    ------
    CheckpointError
        When a matrix is missing, of another shape or of a quantised type, or the layers differ in experts.
    """
    keys = _keys_by_layer(checkpoint)
    if layers is not None and len(keys) != layers:
        raise CheckpointError(
            f"{checkpoint.source}: expected {layers} MoE layers, got {len(keys)} "
            f"(decoder layers {', '.join(map(str, keys))}): {_DOES_NOT_FIT}"
        )
    if experts is None:
        experts = max(number_of_experts(checkpoint, layer_keys) for layer_keys in keys.values())
    files = {file: index for index, file in enumerate(checkpoint.files)}
    gate_ups, downs, segments = [], [], []
    for layer_keys in keys.values():
        pieces = layer_pieces(checkpoint, layer_keys, experts=experts)
        gate_up, down = _expert_shapes(pieces[0], gate_up_shape, down_shape)
        gate_ups.append(gate_up)
        downs.append(down)
        segments.append(tuple(_segments(expert, gate_up, down, files) for expert in pieces))
    names = [key.name for layer_keys in keys.values() for key in layer_keys]
    return ExpertLayout(
        decoder_layers=tuple(keys),
        experts=experts,
        gate_up_shapes=tuple(gate_ups),
        down_shapes=tuple(downs),
        segments=tuple(segments),
        names=frozenset(names),
        dtypes=frozenset(checkpoint.tensor(name).dtype for name in names),
    )


def _keys_by_layer(checkpoint: Checkpoint) -> dict[int, list[ExpertKey]]:
    try:
        keys = expert_keys(checkpoint.names)
    except CheckpointError as error:
        raise CheckpointError(f"{checkpoint.source}: {error}") from None
    by_layer: dict[int, list[ExpertKey]] = {}
    for key in sorted(keys, key=lambda key: (key.decoder_layer, key.name)):
        by_layer.setdefault(key.decoder_layer, []).append(key)
    return by_layer


def _expert_shapes(
    pieces: dict[Matrix, Piece], gate_up: tuple[int, int] | None, down: tuple[int, int] | None
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Shapes of one expert: those expected, else those of the layer's first."""
    rows, columns = pieces[Matrix.DOWN].shape
    down = down or (rows, columns)
    return gate_up or (2 * down[1], down[0]), down


def _segments(
    pieces: dict[Matrix, Piece], gate_up: tuple[int, int], down: tuple[int, int], files: dict[Path, int]
) -> tuple[Segment, ...]:
    half = (gate_up[0] // 2, gate_up[1])
    size = math.prod(gate_up)
    places = {
        Matrix.GATE_UP: (gate_up, 0),
        Matrix.GATE: (half, 0),
        Matrix.UP: (half, size // 2),
        Matrix.DOWN: (down, size),
    }
    segments = []
    for matrix, piece in pieces.items():
        wanted, first = places[matrix]
        if piece.shape != wanted or 0 in wanted:
            raise CheckpointError(
                f"{piece.entry.file}: {piece.entry.name}: expected shape {list(wanted)} for one expert, "
                f"got {list(piece.shape)}: {_DOES_NOT_FIT}"
            )
        segments.append(
            Segment(files[piece.entry.file], piece.entry.dtype, piece.offset_bytes, first, math.prod(wanted))
        )
    return merged(sorted(segments))


def merged(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """Join segments that follow each other both on the disk and in the row, as gate and up often do."""
    joined: list[Segment] = []
    for segment in segments:
        last = joined[-1] if joined else None
        if last is not None and _follows(last, segment) and last.first + last.elements == segment.first:
            joined[-1] = last._replace(elements=last.elements + segment.elements)
        else:
            joined.append(segment)
    return tuple(joined)


@functools.lru_cache(maxsize=1 << 14)
def consecutive_runs(segments: tuple[Segment, ...]) -> tuple[tuple[Segment, ...], ...]:
    """Group segments of one type that follow each other in one file without gaps: each is read at once."""
    runs: list[tuple[Segment, ...]] = []
    for segment in segments:
        if runs and _follows(runs[-1][-1], segment):
            runs[-1] += (segment,)
        else:
            runs.append((segment,))
    return tuple(runs)


def _follows(last: Segment, segment: Segment) -> bool:
    end = last.offset_bytes + last.elements * ITEM_BYTES[last.dtype]
    return (last.file, last.dtype, end) == (segment.file, segment.dtype, segment.offset_bytes)
