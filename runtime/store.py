"""Expert weights at rest in host memory: one flat row per expert."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One matrix or vector inside an expert's flat row.

    Parameters
    ----------
    name
        Its name, unique in the row.
    shape
        Its shape.
    offset
        Where it begins in the row, in elements.
    """

    name: str
    shape: tuple[int, ...]
    offset: int

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def view(self, row: Tensor) -> Tensor:
        """The part of one flat row ``[elements]``, sharing its memory."""
        return row[self.offset : self.offset + self.size].view(self.shape)


def consecutive_parts(shapes: Mapping[str, Sequence[int]]) -> tuple[Part, ...]:
    """Parts that follow each other without gaps, in the order given."""
    parts, offset = [], 0
    for name, shape in shapes.items():
        part = Part(name=name, shape=tuple(shape), offset=offset)
        parts.append(part)
        offset += part.size
    return tuple(parts)


class ExpertStore(Protocol):
    """Where experts' weights come from: host memory or a disk."""

    @property
    def layers(self) -> int:
        """Number of MoE layers."""
        ...

    @property
    def experts(self) -> int:
        """Experts per layer."""
        ...

    @property
    def dtype(self) -> torch.dtype:
        """Element type of all weights."""
        ...

    @property
    def parts(self) -> Sequence[Sequence[Part]]:
        """What lies inside a row, per layer."""
        ...

    @property
    def degraded(self) -> tuple[str, ...]:
        """What does not work as wanted, in words."""
        ...

    def elements(self, layer: int) -> int:
        """Elements in a row of a layer."""
        ...

    def row_bytes(self, layer: int) -> int:
        """Bytes of one expert of a layer."""
        ...

    def slot_elements(self, layer: int) -> int:
        """Elements of memory from which `place` can take a row of a layer."""
        ...

    def new_slots(self, count: int) -> Tensor:
        """New memory ``[count, elements]``, at least one slot, each with room for every expert."""
        ...

    def place(self, layer: int, expert: int, slot: Tensor) -> Tensor:
        """The row ``[elements]`` inside a flat slot in which an expert is best put."""
        ...

    def views(self, layer: int, row: Tensor) -> dict[str, Tensor]:
        """The named parts of a flat row that holds an expert of a layer, sharing its memory."""
        ...

    def read(self, layer: int, expert: int, row: Tensor) -> int:
        """Fill a flat row ``[elements]``; returns the bytes moved. May be called from several threads."""
        ...


class HostStore:
    """The one copy of all expert weights in host memory. Nothing writes to it once it is made.

    Parameters
    ----------
    rows
        Per MoE layer a contiguous tensor ``[experts, elements]`` in host memory; the element type is the same
        everywhere and floating, the number of elements may differ between layers. Kept, not copied.
    parts
        What lies inside a row: for all layers, or one tuple per layer.

    Raises
    ------
    ValueError
        When shapes, types or parts do not fit together.
    """

    degraded: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self, rows: Sequence[Tensor], parts: Sequence[Part] | Sequence[Sequence[Part]] | None = None
    ) -> None:
        if not rows:
            raise ValueError("expected the rows of at least one layer, got none")
        for layer, tensor in enumerate(rows):
            self._check_layer(layer, tensor, rows[0])
        self.rows = tuple(rows)
        self.parts = _parts_per_layer(self.rows, parts)

    @staticmethod
    def _check_layer(layer: int, tensor: Tensor, first: Tensor) -> None:
        if tensor.dim() != 2 or 0 in tensor.shape:
            raise ValueError(
                f"expected rows of shape [experts, elements] in layer {layer}, got {tuple(tensor.shape)}"
            )
        if tensor.device.type != "cpu" or not tensor.is_contiguous():
            raise ValueError(
                f"expected a contiguous tensor in host memory in layer {layer}, got one on "
                f"{tensor.device} with strides {tensor.stride()}"
            )
        if not tensor.dtype.is_floating_point:
            raise ValueError(f"expected a floating element type in layer {layer}, got {tensor.dtype}")
        if tensor.dtype != first.dtype or tensor.shape[0] != first.shape[0]:
            raise ValueError(
                f"expected {first.shape[0]} experts of {first.dtype} in layer {layer}, "
                f"got {tensor.shape[0]} of {tensor.dtype}"
            )

    @property
    def layers(self) -> int:
        """Number of MoE layers."""
        return len(self.rows)

    @property
    def experts(self) -> int:
        """Experts per layer."""
        return int(self.rows[0].shape[0])

    @property
    def dtype(self) -> torch.dtype:
        """Element type of all weights."""
        return self.rows[0].dtype

    @property
    def size_bytes(self) -> int:
        """Bytes of all weights."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.rows)

    def elements(self, layer: int) -> int:
        """Elements in a row of a layer."""
        return int(self.rows[layer].shape[1])

    def row_bytes(self, layer: int) -> int:
        """Bytes of one expert of a layer."""
        return self.elements(layer) * self.rows[layer].element_size()

    def slot_elements(self, layer: int) -> int:
        """See `ExpertStore.slot_elements`; a row needs no more than its own."""
        return self.elements(layer)

    def new_slots(self, count: int) -> Tensor:
        """See `ExpertStore.new_slots`."""
        import torch

        # Ordinary tensors even under inference mode: threads in any mode write to them.
        with torch.inference_mode(False):
            return torch.empty((count, max(map(self.elements, range(self.layers)))), dtype=self.dtype)

    def place(self, layer: int, expert: int, slot: Tensor) -> Tensor:
        """See `ExpertStore.place`; every row begins where its slot does."""
        return slot[: self.elements(layer)]

    def row(self, layer: int, expert: int) -> Tensor:
        """The flat weights ``[elements]`` of one expert; read only by agreement."""
        return self.rows[layer][expert]

    def read(self, layer: int, expert: int, row: Tensor) -> int:
        """See `ExpertStore.read`."""
        row.copy_(self.row(layer, expert))
        return self.row_bytes(layer)

    def views(self, layer: int, row: Tensor) -> dict[str, Tensor]:
        """The named parts of a flat row that holds an expert of a layer, sharing its memory."""
        return {part.name: part.view(row) for part in self.parts[layer]}

    def release(self, layer: int) -> None:
        """Free a layer's weights; only their shape remains."""
        rows = list(self.rows)
        rows[layer] = rows[layer].to("meta")
        self.rows = tuple(rows)

    def checksum(self) -> int:
        """A checksum over all bytes, to show that nothing changed."""
        import torch

        total = 0
        for tensor in self.rows:
            total = zlib.crc32(tensor.detach().view(torch.uint8).numpy().data, total)
        return total


def host_row(store: ExpertStore, layer: int, expert: int) -> Tensor:
    """The flat weights of one expert: the row itself where it lies in host memory, else one read for this."""
    if isinstance(store, HostStore):
        return store.row(layer, expert)
    import torch

    row = torch.empty(store.elements(layer), dtype=store.dtype)
    store.read(layer, expert, row)
    return row


def _parts_per_layer(
    rows: tuple[Tensor, ...], parts: Sequence[Part] | Sequence[Sequence[Part]] | None
) -> tuple[tuple[Part, ...], ...]:
    if parts is None:
        return tuple(consecutive_parts({"weights": (int(tensor.shape[1]),)}) for tensor in rows)
    flat = [part for part in parts if isinstance(part, Part)]
    per_layer: list[tuple[Part, ...]] = []
    if len(flat) == len(parts):
        per_layer = [tuple(flat)] * len(rows)
    else:
        per_layer = [tuple(layer_parts) for layer_parts in parts if not isinstance(layer_parts, Part)]
    if len(per_layer) != len(rows):
        raise ValueError(f"expected the parts of {len(rows)} layers, got {len(per_layer)}")
    for layer, (tensor, layer_parts) in enumerate(zip(rows, per_layer, strict=True)):
        end = 0
        for part in sorted(layer_parts, key=lambda part: part.offset):
            if part.offset < end:
                raise ValueError(f"expected parts that do not overlap in layer {layer}, got {part}")
            end = part.offset + part.size
        if end > tensor.shape[1] or not layer_parts:
            raise ValueError(
                f"expected parts within {tensor.shape[1]} elements in layer {layer}, got {end} elements in "
                f"{len(layer_parts)} parts"
            )
        if len({part.name for part in layer_parts}) != len(layer_parts):
            raise ValueError(f"expected distinct part names in layer {layer}, got a repeated one")
    return tuple(per_layer)
