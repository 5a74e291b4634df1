"""Which tensors a checkpoint has and where they lie: one file, or shards with an index."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

import msgspec

from prescope.runtime.disk.errors import CheckpointError
from prescope.runtime.disk.header import TensorEntry, read_header

INDEX_NAME = "model.safetensors.index.json"
SINGLE_NAME = "model.safetensors"
_MAX_INDEX_BYTES = 200_000_000


class _RawIndex(msgspec.Struct):
    weight_map: dict[str, str]


class Checkpoint:
    """The tensors of a safetensors checkpoint by name. Only headers are read.

    Parameters
    ----------
    entries
        All tensors, in any order.
    source
        The file to name when a tensor is missing.
    file_sizes
        Size of each file in bytes.

    Raises
    ------
    CheckpointError
        When a name is repeated.
    """

    def __init__(
        self, entries: Iterable[TensorEntry], *, source: Path, file_sizes: Mapping[Path, int]
    ) -> None:
        self.source = source
        self._tensors: dict[str, TensorEntry] = {}
        self._file_sizes = dict(file_sizes)
        for entry in entries:
            other = self._tensors.setdefault(entry.name, entry)
            if other is not entry:
                raise CheckpointError(
                    f"{entry.file}: {entry.name}: expected it once, got it in {other.file} too"
                )
        self.names = tuple(sorted(self._tensors))
        self.files = tuple(sorted({entry.file for entry in self._tensors.values()}))

    @classmethod
    def open(cls, path: str | Path) -> Checkpoint:
        """Read the headers of a checkpoint.

        Parameters
        ----------
        path
            A folder as the hub has it, a ``.safetensors`` file, or a ``.safetensors.index.json``.

        Raises
        ------
        CheckpointError
            When a file is missing, damaged, or lacks a tensor that the index promises.
        """
        path = Path(path)
        if path.is_dir():
            path = _main_file(path)
        if path.name.endswith(".index.json"):
            shards, file_sizes = _sharded(path)
            return cls(shards, source=path, file_sizes=file_sizes)
        entries = read_header(path)
        return cls(entries, source=path, file_sizes={path: _end(entries)})

    @property
    def size_bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(entry.size_bytes for entry in self._tensors.values())

    def file_size_bytes(self, file: Path) -> int:
        """Size that a file had when its header was read."""
        return self._file_sizes[file]

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def tensor(self, name: str) -> TensorEntry:
        """Where a tensor lies.

        Raises
        ------
        CheckpointError
            When there is none of that name.
        """
        entry = self._tensors.get(name)
        if entry is None:
            near = difflib.get_close_matches(name, self.names, n=3)
            hint = f"; near it: {', '.join(near)}" if near else ""
            raise CheckpointError(
                f"{self.source}: expected a tensor {name}, got none: fetch the missing file or the whole "
                f"checkpoint again{hint}"
            )
        return entry


def _main_file(folder: Path) -> Path:
    for name in (INDEX_NAME, SINGLE_NAME):
        if (folder / name).exists():
            return folder / name
    found = sorted(folder.glob("*.safetensors"))
    if len(found) == 1:
        return found[0]
    what = f"{len(found)} files without an index" if found else "no safetensors file"
    raise CheckpointError(
        f"{folder}: expected {INDEX_NAME} or {SINGLE_NAME}, got {what}: fetch the checkpoint again, "
        "or convert it to safetensors"
    )


def _end(entries: Sequence[TensorEntry]) -> int:
    """Size of a file with these tensors: a file ends with its last tensor."""
    return max((entry.offset_bytes + entry.size_bytes for entry in entries), default=0)


def _sharded(index: Path) -> tuple[list[TensorEntry], dict[Path, int]]:
    file_of = _weight_map(index)
    entries: list[TensorEntry] = []
    file_sizes = {}
    for file_name in sorted(set(file_of.values())):
        if PurePosixPath(file_name).name != file_name or "\\" in file_name or "\0" in file_name:
            raise CheckpointError(f"{index}: expected files beside the index, got {file_name!r}")
        shard = read_header(index.parent / file_name)
        file_sizes[index.parent / file_name] = _end(shard)
        # What a shard has beyond the index (left-overs of a conversion) is not part of the checkpoint.
        entries += [entry for entry in shard if file_of.get(entry.name) == file_name]
    missing = set(file_of) - {entry.name for entry in entries}
    if missing:
        name = min(missing)
        raise CheckpointError(
            f"{index.parent / file_of[name]}: {name}: expected this tensor, as {index.name} says, got none "
            f"({len(missing)} missing in all): fetch the file again"
        )
    return entries, file_sizes


def _weight_map(index: Path) -> dict[str, str]:
    try:
        size_bytes = index.stat().st_size
        if size_bytes > _MAX_INDEX_BYTES:
            raise CheckpointError(
                f"{index}: expected an index of at most {_MAX_INDEX_BYTES} bytes, got {size_bytes}"
            )
        weight_map = msgspec.json.decode(index.read_bytes(), type=_RawIndex).weight_map
    except FileNotFoundError as error:
        raise CheckpointError(f"{index}: expected an index, got none: fetch it again") from error
    except OSError as error:
        raise CheckpointError(f"{index}: expected a readable index, got: {error}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CheckpointError(f"{index}: expected a weight_map, got: {error}: fetch it again") from error
    if not weight_map:
        raise CheckpointError(f"{index}: expected at least one tensor, got none")
    return weight_map
