"""``prescope profile`` on the tiny model: its answer, its file, its refusals."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
import torch

from prescope.cli import main
from prescope.instances import read_costs
from prescope.runtime.profile import fingerprint_of
from prescope.tiny import load_tiny


class Model(msgspec.Struct, forbid_unknown_fields=True):
    family: str
    layers: int
    decoder_layers: int
    experts: int
    top_k: int
    gate_up_shape: tuple[int, int]
    down_shape: tuple[int, int]
    dense_parameters: int
    dtype: str


class Machine(msgspec.Struct, forbid_unknown_fields=True):
    system: str
    architecture: str
    cores: int
    memory_bytes: int
    python: str
    torch: str
    transformers: str | None


class Provenance(msgspec.Struct, forbid_unknown_fields=True):
    measured_on: str
    machine: Machine
    threads: int
    depth: int
    context: int
    direct: bool
    quick: bool
    seed: int
    notes: str
    created_by: str


class DiskLink(msgspec.Struct, forbid_unknown_fields=True):
    bytes_per_s: int
    latency_ns: int
    expert_bytes: int
    expert_ns: int
    depth: int


class Line(msgspec.Struct, forbid_unknown_fields=True):
    fixed_ns: int
    per_unit_ns: float


class Error(msgspec.Struct, forbid_unknown_fields=True):
    mean: float
    max: float


class Curve(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    taken: Literal["line", "table"]
    line: Line
    line_error: Error
    table_error: Error | None


class Point(msgspec.Struct, forbid_unknown_fields=True):
    x: int
    median_ns: int
    low_ns: int
    high_ns: int
    repeats: int


class Series(msgspec.Struct, forbid_unknown_fields=True):
    kind: str
    label: str
    workers: int
    layer: int | None
    points: list[Point]
    line: Line
    line_error: Error
    table_error: Error | None


class Profile(msgspec.Struct, forbid_unknown_fields=True):
    """What docs/profile.md promises."""

    path: str
    sha256: str
    source: str
    tier: Literal["disk"]
    fingerprint: Model
    provenance: Provenance
    link: DiskLink
    curves: list[Curve]
    reading_slowdown: float
    series: list[Series]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_profile_answers_as_promised(answer: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    found = answer(Profile, "profile", "tiny", "--quick", "-o", path, "--dtype", "float32", "--context", 16)
    file = read_costs(path)
    assert (found.path, found.sha256) == (str(path), file.sha256)
    assert (found.provenance.quick, found.provenance.context) == (True, 16)
    assert found.link.expert_ns == file.costs.copy_ns(0)
    assert len(found.series) == len(file.series) and [one.name for one in found.curves][0] == "expert"
    model, _ = load_tiny(torch.float32)
    file.require_model(fingerprint_of(model))
    with pytest.raises(ValueError, match="dtype: expected float32, got float16"):
        file.require_model(fingerprint_of(model.to(torch.float16)))
    # Nobody learns from it where it was made.
    text = path.read_text()
    assert str(tmp_path) not in text and "site-packages" not in text and "/" not in file.provenance.notes


def test_profile_for_people(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["profile", "tiny", "--quick", "--context", "8", "-o", str(tmp_path / "c.json.gz")]) == 0
    streams = capsys.readouterr()
    for part in ("8 MoE layers of 32 experts", "reads in flight", "cost curve", "dense-prompt", "costs in"):
        assert part in streams.out
    assert "reads of experts" in streams.err
    assert read_costs(tmp_path / "c.json.gz").fingerprint.dtype == "float16"


def test_what_cannot_be_written_is_refused_before_measuring(
    refusal: Callable[..., str], tmp_path: Path
) -> None:
    assert "ending in .json" in refusal("profile", "tiny", "-o", tmp_path / "costs.txt")
    assert "a folder that exists" in refusal("profile", "tiny", "-o", tmp_path / "none" / "costs.json")
    (tmp_path / "folder.json").mkdir()
    assert "got the folder" in refusal("profile", "tiny", "-o", tmp_path / "folder.json")
    assert not (tmp_path / "none").exists()


def test_what_cannot_be_measured_is_refused(refusal: Callable[..., str], tmp_path: Path) -> None:
    target = tmp_path / "costs.json"
    (tmp_path / "empty").mkdir()
    assert main(["profile", str(tmp_path / "empty"), "-o", str(target)]) == 2
    assert main(["profile", "tiny", "--dtype", "int8", "-o", str(target)]) == 2
    assert not target.exists()
