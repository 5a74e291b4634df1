"""Folders, shards and their index, and what is missing in them."""

import json
from pathlib import Path

import pytest
import torch
from disk_checkpoints import dense_tensors, expert_tensors, write_file, write_shards

from prescope.runtime.disk import Checkpoint, CheckpointError, DiskStore

INDEX = "model.safetensors.index.json"


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    """Two shards: one of experts, one of everything else."""
    write_shards(tmp_path, [expert_tensors("qwen"), dense_tensors()])
    return tmp_path


def rewrite_index(folder: Path, **changes: str | None) -> None:
    index = json.loads((folder / INDEX).read_text())
    for name, file in changes.items():
        if file is None:
            del index["weight_map"][name]
        else:
            index["weight_map"][name] = file
    (folder / INDEX).write_text(json.dumps(index))


def test_shards_are_one_checkpoint(sharded: Path) -> None:
    for path in (sharded, sharded / INDEX, str(sharded)):
        checkpoint = Checkpoint.open(path)
        assert set(checkpoint.names) == set(expert_tensors("qwen")) | set(dense_tensors())
        assert [file.name[:11] for file in checkpoint.files] == ["model-00001", "model-00002"]
        assert "buffers.ids" in checkpoint
        assert "buffers.idx" not in checkpoint


def test_a_folder_with_one_file_of_any_name_is_a_checkpoint(tmp_path: Path) -> None:
    write_file(tmp_path / "weights.safetensors", dense_tensors())
    assert Checkpoint.open(tmp_path).names == tuple(sorted(dense_tensors()))
    write_file(tmp_path / "other.safetensors", dense_tensors())
    with pytest.raises(CheckpointError, match="2 files without an index"):
        Checkpoint.open(tmp_path)
    write_file(tmp_path / "model.safetensors", {"a": torch.zeros(2)})
    assert Checkpoint.open(tmp_path).names == ("a",)


def test_links_are_followed(sharded: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("links")
    for file in sharded.iterdir():
        (elsewhere / file.name).symlink_to(file)
    with DiskStore.open(elsewhere) as store:
        assert store.layers == 2


def test_a_missing_tensor_is_named_with_its_neighbours(sharded: Path) -> None:
    with pytest.raises(
        CheckpointError, match=r"expected a tensor buffers\.idx, got none.*near it: buffers\.ids"
    ):
        Checkpoint.open(sharded).tensor("buffers.idx")


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no safetensors file"):
        Checkpoint.open(tmp_path)


def test_a_missing_shard_is_named(sharded: Path) -> None:
    (sharded / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(
        CheckpointError, match=r"model-00002-of-00002\.safetensors: expected a safetensors file, got none"
    ):
        Checkpoint.open(sharded)


def test_a_truncated_shard_is_named(sharded: Path) -> None:
    shard = sharded / "model-00001-of-00002.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=r"model-00001.*layers\.1.*it is truncated, fetch it again"):
        Checkpoint.open(sharded)


def test_a_tensor_that_the_shard_lacks_is_named(sharded: Path) -> None:
    rewrite_index(sharded, ghost="model-00002-of-00002.safetensors")
    with pytest.raises(CheckpointError, match=r"model-00002.*: ghost: expected this tensor"):
        Checkpoint.open(sharded)


def test_what_the_index_does_not_name_is_not_there(sharded: Path) -> None:
    rewrite_index(sharded, **{"buffers.ids": None})
    checkpoint = Checkpoint.open(sharded)
    assert "buffers.ids" not in checkpoint
    with DiskStore.open(checkpoint) as store:
        assert store.read_tensor("model.embed_tokens.weight").shape == (3, 8)


@pytest.mark.parametrize("file", ["../x.safetensors", "/x", "below/x.safetensors", ".", "a\\b", "a\0b"])
def test_an_index_does_not_lead_elsewhere(file: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    (folder / "below").mkdir(parents=True)
    for place in (tmp_path, folder / "below"):
        write_file(place / "x.safetensors", {"a": torch.zeros(2)})
    (folder / INDEX).write_text(json.dumps({"weight_map": {"a": file}}))
    with pytest.raises(CheckpointError, match="expected files beside the index"):
        Checkpoint.open(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a weight_map"),
        ("{", "expected a weight_map"),
        ("[]", "expected a weight_map"),
        ('{"weight_map": {"a": 1}}', "expected a weight_map"),
        ('{"weight_map": {}}', "at least one tensor"),
        ("\udcff", "expected a weight_map"),
    ],
)
def test_a_broken_index_is_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / INDEX).write_bytes(text.encode("utf-8", errors="surrogateescape"))
    with pytest.raises(CheckpointError, match=message) as caught:
        Checkpoint.open(tmp_path)
    assert INDEX in str(caught.value)


def test_an_index_too_large_to_be_one_is_refused(tmp_path: Path) -> None:
    with open(tmp_path / INDEX, "wb") as stream:
        stream.truncate(10**9)
    with pytest.raises(CheckpointError, match="index of at most"):
        Checkpoint.open(tmp_path)


def test_an_absent_index_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="expected an index, got none"):
        Checkpoint.open(tmp_path / INDEX)
