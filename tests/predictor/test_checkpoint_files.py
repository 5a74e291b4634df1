"""Checkpoint folders: what is written reads back, what is wrong is refused and named."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from prescope.predictor import checkpoint_files
from prescope.predictor.checkpoint_files import (
    CheckpointError,
    _digest,
    exactly,
    read_checkpoint,
    write_checkpoint,
)

ARRAYS = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones(2, dtype=np.float16)}
DOCUMENT = {"settings": {"width": 3, "rates": [0.5, 1.0], "name": "x"}, "notes": "n"}
FIELDS = ("settings", "notes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What `exactly` is tried on."""

    width: int
    rates: tuple[float, ...]
    name: str = "x"

    def __post_init__(self) -> None:
        if self.width < 1:
            raise ValueError(f"expected width >= 1, got {self.width}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_checkpoint(tmp_path / "c", "test", DOCUMENT, save(ARRAYS))
    return tmp_path / "c"


def rewrite(folder: Path, **changes: Any) -> None:
    """Alter the document and make its checksum anew."""
    path = folder / "predictor.json"
    document = json.loads(path.read_text()) | changes
    document["sha256"] = _digest(document)
    path.write_text(json.dumps(document))


def refused(folder: Path, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        read_checkpoint(folder, ("test",), FIELDS)


def test_reads_back_equal(folder: Path) -> None:
    kind, document, arrays = read_checkpoint(folder, ("other", "test"), FIELDS)
    assert (kind, document) == ("test", DOCUMENT)
    assert set(arrays) == set(ARRAYS)
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype and np.array_equal(arrays[name], array)
    assert exactly(Settings, document["settings"]) == Settings(width=3, rates=(0.5, 1.0))


def test_what_is_wrong_is_named(folder: Path) -> None:
    for changes, message in (
        ({"format": "x"}, "expected format 'prescope-predictor', got 'x'"),
        ({"version": 2}, "expected version 1, got 2; it was written by a newer prescope: upgrade"),
        ({"version": True}, "expected version 1, got True"),
        ({"kind": "else"}, "expected a predictor of kind 'test', got 'else'"),
        ({"colour": 1}, "differing in .'colour'."),
        ({"weights_sha256": "0" * 64}, "weights.safetensors: expected the weights that predictor.json"),
    ):
        write_checkpoint(folder, "test", DOCUMENT, save(ARRAYS))
        rewrite(folder, **changes)
        refused(folder, message)


def test_altered_text_does_not_match_its_checksum(folder: Path) -> None:
    path = folder / "predictor.json"
    path.write_text(path.read_text().replace('"width": 3', '"width": 4'))
    refused(folder, "expected the checksum of the content")
    path.write_text(path.read_text().replace('"width": 4', '"width": 3, "width": 3'))
    refused(folder, "a field said twice")


def test_hostile_folders_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for text, message in (
        ("[" * 100_000, "expected JSON"),
        ("[]", "an object"),
        ('{"a": NaN}', "NaN, which is"),
    ):
        (folder / "predictor.json").write_text(text)
        refused(folder, message)
    write_checkpoint(folder, "test", DOCUMENT, save({"a": np.array([np.nan], dtype=np.float32)}))
    refused(folder, "got others in 'a'")
    write_checkpoint(folder, "test", DOCUMENT, save({"a": np.arange(3)}))
    refused(folder, "got others in 'a'")
    write_checkpoint(folder, "test", DOCUMENT, b"\xff" * 100)
    refused(folder, "expected a safetensors file")
    monkeypatch.setattr(checkpoint_files, "MAX_WEIGHTS_BYTES", 10)
    refused(folder, "weights.safetensors: expected at most 10 bytes")
    (folder / "predictor.json").unlink()
    refused(folder, "predictor.json: expected a file of a trained predictor")
    os.mkfifo(folder / "predictor.json")
    refused(folder, "expected a regular file")


def test_values_are_taken_exactly() -> None:
    good = {"width": 3, "rates": [1.0], "name": "y"}
    assert exactly(Settings, good).rates == (1.0,)
    for change in (
        {"width": 0},
        {"width": "3"},
        {"width": True},
        {"width": 3.5},
        {"rates": 1.0},
        {"colour": 1},
        {"name": None},
    ):
        with pytest.raises(ValueError, match="Settings: "):
            exactly(Settings, good | change)
    with pytest.raises(ValueError, match="Settings: "):
        exactly(Settings, {"width": 3, "rates": []})


def test_an_interrupted_write_is_noticed(folder: Path) -> None:
    """The weights are there, the JSON is still the old one."""
    (folder / "weights.safetensors").write_bytes(save({"a": np.zeros(1, dtype=np.float32)}))
    refused(folder, "expected the weights that predictor.json was written with")
