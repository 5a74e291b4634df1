"""The header of one safetensors file, read without trusting it."""

from __future__ import annotations

import math
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from prescope.runtime.disk.dtypes import ITEM_BYTES, torch_dtype
from prescope.runtime.disk.errors import CheckpointError

if TYPE_CHECKING:
    import torch

# Limits of the format's own reader.
MAX_HEADER_BYTES = 100_000_000
_PREFIX_BYTES = 8
_MAX_DIMENSIONS = 16
_AGAIN = "the file is damaged or not a safetensors file: fetch it again"

_Size = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class _RawTensor(msgspec.Struct, forbid_unknown_fields=True):
    dtype: str
    shape: Annotated[list[_Size], msgspec.Meta(max_length=_MAX_DIMENSIONS)]
    data_offsets: tuple[_Size, _Size]


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorEntry:
    """Where one tensor lies.

    Parameters
    ----------
    name
        Its name in the checkpoint.
    file
        The file that holds it.
    dtype
        Element type as the file names it, such as ``"BF16"``.
    shape
        Its shape; row major without gaps.
    offset_bytes
        Where it begins, from the beginning of the file.
    size_bytes
        Its size.
    """

    name: str
    file: Path
    dtype: str
    shape: tuple[int, ...]
    offset_bytes: int
    size_bytes: int

    @property
    def torch_dtype(self) -> torch.dtype:
        """Its element type in torch; ``ValueError`` when the installed torch lacks it."""
        return torch_dtype(self.dtype)


def read_header(file: Path) -> tuple[TensorEntry, ...]:
    """Return the tensors of a file by ascending offset, checked to lie inside it one after the other.

    Only the header is read; memory is bounded by a small multiple of the header's size.

    Raises
    ------
    CheckpointError
        When the file is missing, unreadable, truncated, or its header describes anything but tensors that
        fill the data without gap or overlap, each as large as its type and shape say.
    """
    try:
        if not stat.S_ISREG(os.stat(file).st_mode):
            raise CheckpointError(f"{file}: expected a safetensors file, got something else: fetch it again")
        with open(file, "rb", buffering=0) as stream:
            size_bytes = os.fstat(stream.fileno()).st_size
            header, data_offset = _raw_header(file, stream.fileno(), size_bytes)
    except FileNotFoundError as error:
        raise CheckpointError(f"{file}: expected a safetensors file, got none: fetch it again") from error
    except OSError as error:
        raise CheckpointError(f"{file}: expected a readable safetensors file, got: {error}") from error
    entries = [_entry(file, name, raw, data_offset) for name, raw in _tensors(file, header).items()]
    entries.sort(key=lambda entry: (entry.offset_bytes, entry.size_bytes))
    _check_layout(file, entries, data_offset, size_bytes)
    return tuple(entries)


def _raw_header(file: Path, descriptor: int, size_bytes: int) -> tuple[bytes, int]:
    prefix = os.pread(descriptor, _PREFIX_BYTES, 0)
    if len(prefix) < _PREFIX_BYTES:
        raise CheckpointError(f"{file}: expected a header, got a file of {size_bytes} bytes: {_AGAIN}")
    length = int.from_bytes(prefix, "little")
    if length > MAX_HEADER_BYTES:
        raise CheckpointError(
            f"{file}: expected a header of at most {MAX_HEADER_BYTES} bytes, got {length}: {_AGAIN}"
        )
    if length > size_bytes - _PREFIX_BYTES:
        raise CheckpointError(
            f"{file}: expected a header of {length} bytes, got a file of {size_bytes} bytes: "
            "it is truncated, fetch it again"
        )
    header = b""
    while len(header) < length:
        more = os.pread(descriptor, length - len(header), _PREFIX_BYTES + len(header))
        if not more:
            raise CheckpointError(f"{file}: expected a header of {length} bytes, got {len(header)}: {_AGAIN}")
        header += more
    return header, _PREFIX_BYTES + length


def _tensors(file: Path, header: bytes) -> dict[str, _RawTensor]:
    try:
        fields = msgspec.json.decode(header, type=dict[str, msgspec.Raw])
        metadata = fields.pop("__metadata__", None)
        if metadata is not None:
            msgspec.json.decode(metadata, type=dict[str, str] | None)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CheckpointError(f"{file}: expected a header of tensors, got: {error}: {_AGAIN}") from error
    decoder = msgspec.json.Decoder(_RawTensor)
    tensors = {}
    for name, raw in fields.items():
        try:
            tensors[name] = decoder.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise CheckpointError(
                f"{file}: {name}: expected dtype, shape and offsets, got: {error}: {_AGAIN}"
            ) from error
    return tensors


def _entry(file: Path, name: str, raw: _RawTensor, data_offset: int) -> TensorEntry:
    if raw.dtype not in ITEM_BYTES:
        raise CheckpointError(
            f"{file}: {name}: expected an element type of {', '.join(ITEM_BYTES)}, got {raw.dtype!r}: "
            "it is not supported, convert the checkpoint"
        )
    begin, end = raw.data_offsets
    wanted = math.prod(raw.shape) * ITEM_BYTES[raw.dtype]
    if end - begin != wanted:
        raise CheckpointError(
            f"{file}: {name}: expected {wanted} bytes for {raw.dtype} {list(raw.shape)}, "
            f"got the range [{begin}, {end}): {_AGAIN}"
        )
    return TensorEntry(
        name=name,
        file=file,
        dtype=raw.dtype,
        shape=tuple(raw.shape),
        offset_bytes=data_offset + begin,
        size_bytes=wanted,
    )


def _check_layout(file: Path, entries: list[TensorEntry], data_offset: int, size_bytes: int) -> None:
    position = data_offset
    for entry in entries:
        if entry.offset_bytes != position:
            what = "overlap" if entry.offset_bytes < position else "a gap"
            raise CheckpointError(
                f"{file}: {entry.name}: expected its data at offset {position}, got {entry.offset_bytes} "
                f"({what}): {_AGAIN}"
            )
        position += entry.size_bytes
        if position > size_bytes:
            raise CheckpointError(
                f"{file}: {entry.name}: expected data up to offset {position}, got a file of {size_bytes} "
                "bytes: it is truncated, fetch it again"
            )
    if position != size_bytes:
        raise CheckpointError(
            f"{file}: expected a file of {position} bytes, got {size_bytes}: data no tensor owns; {_AGAIN}"
        )
