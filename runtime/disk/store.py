"""Expert weights at rest on the disk: one flat row per expert, brought into memory on demand."""

from __future__ import annotations

import weakref
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from prescope.runtime.disk.calls import SystemCalls
from prescope.runtime.disk.checkpoint import Checkpoint
from prescope.runtime.disk.dtypes import torch_dtype
from prescope.runtime.disk.errors import CheckpointError
from prescope.runtime.disk.layout import ExpertLayout, Segment, expert_layout
from prescope.runtime.disk.memory import aligned_memory
from prescope.runtime.disk.rail import Rail
from prescope.runtime.store import consecutive_parts

if TYPE_CHECKING:
    import torch
    from torch import Tensor

# Where rows begin that the disk cannot fill in place.
_ALIGNED_BYTES = 64


class DiskStore:
    """All expert weights of a checkpoint, where they are; has the face of `prescope.runtime.HostStore`.

    A row holds ``gate_up_proj`` ``[2I, H]``, gate rows first, then ``down_proj`` ``[H, I]``. Reads bypass the
    page cache (`direct`), so that no memory but the row's is taken; where the system refuses that, `degraded`
    says so. All methods may be called from several threads at once.

    Parameters
    ----------
    checkpoint
        The tensors.
    layout
        Where the experts are among them.
    dtype
        Element type of rows.
    calls, staging_buffers
        As for `open`.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        layout: ExpertLayout,
        *,
        dtype: torch.dtype,
        calls: SystemCalls,
        staging_buffers: int,
    ) -> None:
        self.checkpoint = checkpoint
        self.dtype = dtype
        self.parts = tuple(
            consecutive_parts({"gate_up_proj": gate_up, "down_proj": down})
            for gate_up, down in zip(layout.gate_up_shapes, layout.down_shapes, strict=True)
        )
        self._layout = layout
        self._elements = tuple(sum(part.size for part in parts) for parts in self.parts)
        self._rail = Rail(checkpoint, calls=calls, staging_buffers=staging_buffers)
        # A store that is forgotten, not closed, leaves no file open.
        weakref.finalize(self, self._rail.close)

    @classmethod
    def open(
        cls,
        checkpoint: Checkpoint | str | Path,
        *,
        dtype: torch.dtype | None = None,
        layers: int | None = None,
        experts: int | None = None,
        gate_up_shape: tuple[int, int] | None = None,
        down_shape: tuple[int, int] | None = None,
        calls: SystemCalls | None = None,
        staging_buffers: int = 8,
    ) -> DiskStore:
        """Find the experts of a checkpoint and open its files.

        Parameters
        ----------
        checkpoint
            A checkpoint, or its path as for `Checkpoint.open`.
        dtype
            Element type of rows, a floating one; ``None`` for the checkpoint's. Another than the checkpoint's
            is cast to on arrival.
        layers, experts, gate_up_shape, down_shape
            What the model's configuration says of the number of MoE layers, experts per layer and the
            matrices of one expert, ``(2I, H)`` and ``(H, I)``; ``None`` for what the files say.
        calls
            The system's calls; for tests.
        staging_buffers
            Most buffers of 4 MiB at once. Reads that cannot go straight into their row, or are cast, need one
            and wait for it.

        Raises
        ------
        CheckpointError
            When the checkpoint is damaged, or does not fit the configuration.
        DiskReadError
            When a file cannot be opened.
        """
        if not isinstance(checkpoint, Checkpoint):
            checkpoint = Checkpoint.open(checkpoint)
        layout = expert_layout(
            checkpoint, layers=layers, experts=experts, gate_up_shape=gate_up_shape, down_shape=down_shape
        )
        if dtype is None:
            if len(layout.dtypes) > 1:
                raise CheckpointError(
                    f"{checkpoint.source}: expected experts of one type, got "
                    f"{', '.join(sorted(layout.dtypes))}: pass dtype= to cast them"
                )
            dtype = torch_dtype(next(iter(layout.dtypes)))
        if not dtype.is_floating_point or dtype.itemsize < 2:
            raise ValueError(f"expected float64, float32, float16 or bfloat16 rows, got {dtype}")
        return cls(
            checkpoint, layout, dtype=dtype, calls=calls or SystemCalls(), staging_buffers=staging_buffers
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all files, each at the end of its reads in flight; idempotent."""
        self._rail.close()

    @property
    def layers(self) -> int:
        """Number of MoE layers."""
        return len(self._elements)

    @property
    def experts(self) -> int:
        """Experts per layer."""
        return self._layout.experts

    @property
    def decoder_layers(self) -> tuple[int, ...]:
        """Index of each MoE layer among all decoder layers."""
        return self._layout.decoder_layers

    @property
    def expert_names(self) -> frozenset[str]:
        """The checkpoint's tensors that belong to experts; all others are dense."""
        return self._layout.names

    @property
    def size_bytes(self) -> int:
        """Bytes of all rows."""
        return self.experts * sum(map(self.row_bytes, range(self.layers)))

    @property
    def direct(self) -> bool:
        """Whether every file is read past the page cache."""
        return self._rail.direct

    @property
    def degraded(self) -> tuple[str, ...]:
        """What is not as wanted, in sentences; empty when every read bypasses the page cache."""
        return self._rail.degraded()

    @property
    def staging_bytes(self) -> int:
        """Most memory that reading ever takes besides rows."""
        return self._rail.staging_bytes

    @property
    def bytes_read(self) -> int:
        """Bytes taken from the disk since the store was opened, alignment included."""
        return self._rail.bytes_read

    @property
    def reads(self) -> int:
        """Reads that succeeded since the store was opened."""
        return self._rail.reads

    def elements(self, layer: int) -> int:
        """Elements in a row of a layer."""
        return self._elements[layer]

    def row_bytes(self, layer: int) -> int:
        """Bytes of one expert of a layer."""
        return self._elements[layer] * self.dtype.itemsize

    def views(self, layer: int, row: Tensor) -> dict[str, Tensor]:
        """The named parts of a flat row that holds an expert of a layer, sharing its memory."""
        return {part.name: part.view(row) for part in self.parts[layer]}

    def slot_elements(self, layer: int) -> int:
        """Elements of a slot in which `place` finds room for any expert of a layer: a row and some slack."""
        return self._elements[layer] + max(self._rail.block_bytes, _ALIGNED_BYTES) // self.dtype.itemsize

    def new_slots(self, count: int) -> Tensor:
        """New memory for experts, zeroed: ``[count, slot_elements of the largest layer]``.

        In huge pages where the system has them: reads into those are more than twice as fast. Pages cost
        nothing until they are touched.
        """
        import torch

        width = max(map(self.slot_elements, range(self.layers)))
        if count < 1:
            raise ValueError(f"expected at least one slot, got {count}")
        with torch.inference_mode(False):
            flat = torch.frombuffer(aligned_memory(count * width * self.dtype.itemsize), dtype=self.dtype)
        return flat.view(count, width)

    def place(self, layer: int, expert: int, slot: Tensor) -> Tensor:
        """The part of a slot that the disk can fill with an expert without a copy, flat ``[elements]``.

        The same expert in the same slot always lies in the same place.

        Parameters
        ----------
        layer, expert
            The expert.
        slot
            Flat and contiguous, at least ``slot_elements(layer)``.

        Raises
        ------
        ValueError
            When the slot is too small.
        """
        segments = self._segments(layer, expert)
        size = self._elements[layer]
        if slot.numel() < self.slot_elements(layer):
            raise ValueError(
                f"expected a slot of at least {self.slot_elements(layer)} elements, got {slot.numel()}"
            )
        segment = next(segment for segment in segments if segment.first == 0)
        block = self._rail.files[segment.file].block_bytes
        shift = (segment.offset_bytes - slot.data_ptr()) % block
        # A file whose data begins between elements has no such place. And a float32 matrix times one row is
        # summed in another order from an address that is no multiple of 16: the same weights would give
        # other last bits than the loaded model's.
        if (slot.data_ptr() + shift) % (16 if self.dtype.itemsize >= 4 else self.dtype.itemsize):
            shift = -slot.data_ptr() % _ALIGNED_BYTES
        first = shift // self.dtype.itemsize
        return slot[first : first + size]

    def read(self, layer: int, expert: int, row: Tensor) -> int:
        """Fill a row with an expert's weights.

        Without a copy when the row is one of `place`; any other works too.

        Parameters
        ----------
        layer, expert
            The expert.
        row
            Flat, contiguous, ``[elements(layer)]`` of the store's type in host memory. Nothing else may touch
            it meanwhile.

        Returns
        -------
        int
            Bytes taken from the disk, alignment included.

        Raises
        ------
        DiskReadError
            When the disk fails; the row's content is undefined then, and the next read starts afresh.
        """
        segments = self._segments(layer, expert)
        if row.dtype != self.dtype or row.shape != (self._elements[layer],) or not row.is_contiguous():
            raise ValueError(
                f"expected a contiguous row of {self._elements[layer]} elements of {self.dtype}, "
                f"got {tuple(row.shape)} of {row.dtype} with strides {row.stride()}"
            )
        if row.device.type != "cpu":
            raise ValueError(f"expected a row in host memory, got one on {row.device}")
        return self._rail.read(segments, row)

    def load_row(self, layer: int, expert: int) -> Tensor:
        """A new row ``[elements]`` with an expert's weights; errors as for `read`."""
        import torch

        with torch.inference_mode(False):
            row = self.place(layer, expert, torch.empty(self.slot_elements(layer), dtype=self.dtype))
        self.read(layer, expert, row)
        return row

    def read_tensor(self, name: str, *, dtype: torch.dtype | None = None) -> Tensor:
        """A new tensor with any tensor of the checkpoint, read past the page cache as experts are.

        Parameters
        ----------
        name
            Its name.
        dtype
            Type to cast to; ``None`` to keep the file's. Tensors that are not floating are never cast.

        Raises
        ------
        CheckpointError
            When there is no such tensor.
        DiskReadError
            When the disk fails.
        """
        import torch

        entry = self.checkpoint.tensor(name)
        source = entry.torch_dtype
        wanted = dtype if dtype is not None and source.is_floating_point else source
        count = entry.size_bytes // source.itemsize
        file = self.checkpoint.files.index(entry.file)
        segment = Segment(file, entry.dtype, entry.offset_bytes, 0, count)
        with torch.inference_mode(False):
            room = torch.empty(count + self._rail.block_bytes // wanted.itemsize, dtype=wanted)
            shift = (entry.offset_bytes - room.data_ptr()) % self._rail.files[file].block_bytes
            first = 0 if shift % wanted.itemsize else shift // wanted.itemsize
            row = room[first : first + count]
        if count:
            self._rail.read((segment,), row)
        return row.view(entry.shape)

    def _segments(self, layer: int, expert: int) -> tuple[Segment, ...]:
        if not (0 <= layer < self.layers and 0 <= expert < self.experts):
            raise ValueError(
                f"expected a layer in [0, {self.layers - 1}] and an expert in [0, {self.experts - 1}], "
                f"got layer {layer}, expert {expert}"
            )
        return self._layout.segments[layer][expert]
