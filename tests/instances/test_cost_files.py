"""Cost files: what is written reads back equal, what is wrong is refused, another model is refused."""

import json
import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cost_file_strategies import cost_files, example_costs
from file_mutants import damaged_bytes, damaged_document, sealed
from hypothesis import given, settings

from prescope.formulation import Tier
from prescope.instances import (
    CostFile,
    InstanceFileError,
    MeasuredPoint,
    MeasuredSeries,
    read_costs,
    read_instance,
    write_costs,
)

MUTANTS = int(os.environ.get("MUTANTS", "300"))


def example_document(tmp_path: Path) -> dict[str, Any]:
    write_costs(tmp_path / "whole.json", example_costs())
    loaded: dict[str, Any] = json.loads((tmp_path / "whole.json").read_bytes())
    return loaded


@settings(max_examples=60)
@given(file=cost_files())
@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_costs_read_back_equal(tmp_path_factory: pytest.TempPathFactory, suffix: str, file: CostFile) -> None:
    path = tmp_path_factory.getbasetemp() / f"costs{suffix}"
    digest = write_costs(path, file)
    again = read_costs(path)
    assert again == file
    assert again.sha256 == file.sha256 == digest


def test_damaged_bytes_never_change_the_meaning(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    write_costs(path, example_costs())
    whole = path.read_bytes()
    refused = 0
    for seed in range(MUTANTS):
        path.write_bytes(damaged_bytes(whole, random.Random(seed)))
        try:
            assert read_costs(path) == example_costs(), f"seed {seed}"
        except InstanceFileError:
            refused += 1
    assert refused > 0.8 * MUTANTS


def test_altered_documents_mean_what_they_say_or_are_refused(tmp_path: Path) -> None:
    document = example_document(tmp_path)
    path, accepted = tmp_path / "costs.json", 0
    for seed in range(3 * MUTANTS):
        path.write_bytes(sealed(damaged_document(document, random.Random(seed))))
        try:
            file = read_costs(path)
        except InstanceFileError as error:
            assert len(str(error)) < 2000, f"seed {seed}"
            continue
        accepted += 1
        write_costs(tmp_path / "again.json", file)
        assert json.loads((tmp_path / "again.json").read_bytes()) == json.loads(path.read_bytes())
    assert accepted > 0.05 * MUTANTS, "the damage is too coarse to test anything"


def drop(document: dict[str, Any]) -> None:
    del document["tier"]


def unknown(document: dict[str, Any]) -> None:
    document["provenance"]["hostname"] = "x"


def newer(document: dict[str, Any]) -> None:
    document["version"] = 2


def not_a_day(document: dict[str, Any]) -> None:
    document["provenance"]["measured_on"] = "2026-02-30"


def layers(document: dict[str, Any]) -> None:
    document["fingerprint"]["layers"] = 1


def falling(document: dict[str, Any]) -> None:
    document["series"][0]["points"].reverse()


def above(document: dict[str, Any]) -> None:
    document["series"][0]["points"][0][2] = 1000


def computing_disk(document: dict[str, Any]) -> None:
    document["host_computes"] = True


WRONG = {
    drop: "file: Object missing required field `tier`",
    unknown: "provenance: Object contains unknown field `hostname`",
    newer: "version: expected 1, got 2. It was written by a newer prescope",
    not_a_day: "provenance: expected measured_on as YYYY-MM-DD, got '2026-02-30'",
    layers: "costs: expected costs for the 1 MoE layers of the model, got 2",
    falling: "series: expected increasing x in the series '3 threads', got 8, 2",
    above: r"series: expected low_ns in \[0, 11\], got 1000",
    computing_disk: "costs: expected host_computes=False for weights on disk, got True",
}


@pytest.mark.parametrize("change", WRONG, ids=lambda change: change.__name__)
def test_wrong_content_is_refused_with_the_field(tmp_path: Path, change: Any) -> None:
    document = example_document(tmp_path)
    change(document)
    path = tmp_path / "wrong.json"
    path.write_bytes(sealed(document))
    with pytest.raises(InstanceFileError, match=WRONG[change]):
        read_costs(path)


def test_other_kinds_of_files_are_told_apart(tmp_path: Path) -> None:
    write_costs(tmp_path / "costs.json", example_costs())
    with pytest.raises(InstanceFileError, match=r"got 'prescope-costs'\. Read it with .*read_costs"):
        read_instance(tmp_path / "costs.json")
    with pytest.raises(InstanceFileError, match="expected a readable file"):
        read_costs(tmp_path / "none.json")


def test_nothing_is_left_of_a_write_that_fails(tmp_path: Path) -> None:
    write_costs(tmp_path / "costs.json", example_costs())
    before = (tmp_path / "costs.json").read_bytes()
    fingerprint = replace(example_costs().fingerprint, family="\ud800")
    with pytest.raises(InstanceFileError, match="expected content that JSON can hold"):
        write_costs(tmp_path / "costs.json", replace(example_costs(), fingerprint=fingerprint))
    assert [path.name for path in tmp_path.iterdir()] == ["costs.json"]
    assert (tmp_path / "costs.json").read_bytes() == before


def test_another_model_is_refused_with_every_difference() -> None:
    file = example_costs()
    file.require_model(file.fingerprint)
    other = replace(file.fingerprint, experts=8, gate_up_shape=(16, 4), dtype="bfloat16")
    with pytest.raises(ValueError, match="olmoe, 2 MoE layers of 4 experts") as caught:
        file.require_model(other)
    for part in (
        "experts: expected 4, got 8",
        "gate_up_shape: expected 8x4, got 16x4",
        "dtype: expected float32, got bfloat16",
        "Measure this model with `prescope profile`",
    ):
        assert part in str(caught.value)
    assert str(caught.value).count("expected") == 4


def test_points_say_their_spread() -> None:
    point = MeasuredPoint(x=1, median_ns=100, low_ns=90, high_ns=130, repeats=3)
    assert point.spread == pytest.approx(0.4)
    series = MeasuredSeries(kind="copy", label="a", workers=1, points=(point,))
    assert (series.xs, series.medians_ns) == ((1,), (100,))


@pytest.mark.parametrize("day", ["20260203", "2026-W06-2", "2026-2-3", "", None])
def test_days_are_written_one_way(day: Any) -> None:
    with pytest.raises(ValueError, match="expected measured_on as YYYY-MM-DD"):
        replace(example_costs().provenance, measured_on=day)


def test_a_disk_has_a_depth_and_says_whether_reads_were_direct() -> None:
    with pytest.raises(ValueError, match="both or none of depth and direct, got 2 and None"):
        replace(example_costs().provenance, direct=None)
    with pytest.raises(ValueError, match="host_computes=False for weights on disk"):
        replace(example_costs(), host_computes=True)
    assert replace(example_costs(), host_computes=True, tier=Tier.RAM).host_computes
