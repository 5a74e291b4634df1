"""Files that are wrong, damaged or hostile are refused with the field and a remedy."""

import gzip
import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from file_mutants import sealed
from small_file import small_document, small_file

from prescope.instances import InstanceFileError, limits, read_instance, read_plan, write_instance


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    write_instance(tmp_path / "whole.json.gz", small_file())
    data = (tmp_path / "whole.json.gz").read_bytes()
    text = gzip.decompress(data)
    for suffix, whole in ((".json.gz", data), (".json", text.rstrip())):
        for length in range(0, len(whole), 7):
            path = tmp_path / f"part{suffix}"
            path.write_bytes(whole[:length])
            with pytest.raises(InstanceFileError, match="damaged|Correct"):
                read_instance(path)


def expect_error(path: Path, field: str, problem: str, remedy: str) -> InstanceFileError:
    with pytest.raises(InstanceFileError) as caught:
        read_instance(path)
    error = caught.value
    assert error.path == str(path) and str(path) in str(error)
    assert (error.field, problem in error.problem, remedy in error.remedy) == (field, True, True), str(error)
    assert error.field in str(error) and error.remedy in str(error)
    return error


Change = tuple[tuple[str | int, ...], Any]
WRONG: dict[str, tuple[Change, str, str, str]] = {
    "future version": ((("version",), 2), "version", "expected 1, got 2", "newer prescope: upgrade"),
    "version zero": ((("version",), 0), "version", "expected 1, got 0", "Correct"),
    "version true": ((("version",), True), "version", "expected 1, got a bool", "Correct"),
    "another format": ((("format",), "prescope-plan"), "format", "got 'prescope-plan'", "read_plan"),
    "foreign format": ((("format",), "x"), "format", "expected 'prescope-instance'", "Name a file"),
    "unknown field": ((("instance", "colour"), 1), "instance", "unknown field `colour`", "Correct"),
    "unknown top field": ((("extra",), 1), "file", "unknown field `extra`", "Correct"),
    "text for number": ((("instance", "slots"), "4"), "instance.slots", "Expected `int`", "Correct"),
    "bool for number": ((("instance", "slots"), True), "instance.slots", "Expected `int`", "Correct"),
    "fraction for integer": (
        (("instance", "demand", "counts", 3, 2), 1.5),
        "instance.demand.counts[3][2]",
        "Expected `int`",
        "Correct",
    ),
    "negative": ((("instance", "slots"), -1), "instance.slots", ">= 0", "Correct"),
    "unknown tier": ((("instance", "tier"), "tape"), "instance.tier", "Invalid enum", "Correct"),
    "unknown curve": (
        (("instance", "costs", "gpu", 0, "kind"), "cubic"),
        "instance.costs.gpu[0].kind",
        "Invalid value 'cubic'",
        "Correct",
    ),
    "ragged counts": (
        (("instance", "demand", "counts", 3), [1, 1]),
        "instance.demand.counts",
        "expected 8 experts in every layer, got 2 in layer 3",
        "Correct",
    ),
    "count above batch": (
        (("instance", "demand", "counts", 0, 0), 3),
        "instance.demand.counts",
        "batch_tokens=2",
        "Correct",
    ),
    "too few costs": (
        (("instance", "costs", "expert_bytes"), [1, 2]),
        "instance.costs",
        "expected costs for 32 layers, got 2",
        "Correct",
    ),
    "too few residents": ((("instance", "residents"), [[1]]), "instance", "for 32 layers, got 1", "Correct"),
    "unknown resident": ((("instance", "residents", 0), [8]), "instance", "[0, 7], got 8", "Correct"),
    "residents out of order": (
        (("instance", "residents", 1), [5, 2]),
        "instance.residents",
        "ascending distinct experts",
        "Correct",
    ),
    "residents twice": ((("instance", "residents", 1), [2, 2]), "instance.residents", "layer 1", "Correct"),
    "bytes beyond the limit": (
        (("instance", "costs", "expert_bytes", 0), 2**50 + 1),
        "instance.costs.expert_bytes[0]",
        "<= 1125899906842624",
        "Correct",
    ),
    "sum beyond 64 bits": (
        (("instance", "costs", "link", "bytes_per_s"), 1),
        "instance.costs",
        "add up to at most",
        "Correct",
    ),
    "disk that computes": ((("instance", "tier"), "disk"), "instance", "host_computes=False", "Correct"),
    "bound above optimum": (
        (("bounds",), {"optimum_ns": 4, "optimum_by": "x", "lower_bound_ns": 5, "lower_bound_by": "y"}),
        "bounds",
        "lower_bound_ns in [0, 4]",
        "Correct",
    ),
    "bound by nobody": ((("bounds", "lower_bound_by"), None), "bounds", "both or none", "Correct"),
    "created by nobody": ((("provenance", "created_by"), ""), "provenance", "created_by", "Correct"),
    "wrong prediction": (
        (("instance", "predicted"), {"source": "", "probabilities": [[[0.5]]], "expected_tokens": [[[1.0]]]}),
        "instance.predicted",
        "for 32 layers at every horizon, got 1",
        "Correct",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_field_is_named_with_a_remedy(tmp_path: Path, case: str) -> None:
    (where, value), field, problem, remedy = WRONG[case]
    document = small_document(tmp_path)
    inner: Any = document
    for step in where[:-1]:
        inner = inner[step]
    inner[where[-1]] = value
    path = tmp_path / "wrong.json"
    path.write_bytes(sealed(document))
    expect_error(path, field, problem, remedy)


def test_altered_content_does_not_match_its_checksum(tmp_path: Path) -> None:
    document = small_document(tmp_path)
    document["instance"]["slots"] += 1
    path = tmp_path / "altered.json"
    path.write_text(json.dumps(document))
    expect_error(path, "sha256", "expected the checksum of the content", "altered")


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e999", "null"])
def test_numbers_that_are_none_are_refused(tmp_path: Path, literal: str) -> None:
    text = (small_document(tmp_path), (tmp_path / "small.json").read_text())[1]
    path = tmp_path / "nan.json"
    number = str(small_file().instance.costs.gpu[0].per_token_ns)  # type: ignore[union-attr]
    assert f'"per_token_ns":{number}' in text
    path.write_text(text.replace(f'"per_token_ns":{number}', f'"per_token_ns":{literal}', 1))
    with pytest.raises(InstanceFileError):
        read_instance(path)


HOSTILE = {
    "deep": (b"[" * 1_000_000, "file"),
    "deep in a field": (b'{"format":' + b"[" * 1_000_000, "file"),
    "many values": (
        b'{"format":"prescope-instance","version":1,"x":[' + b"1," * (4 * 2**20) + b"1]}",
        "file",
    ),
    "not text": (b"\xff\xfe\x00", "file"),
    "nothing": (b"", "file"),
    "wrong text": (b'{"format":"prescope-instance","version":1,"sha256":"\xff"}', "file"),
    "list": (b"[]", "file"),
    "no format": (b"{}", "format"),
    "long version": (b'{"format":"prescope-instance","version":' + b"9" * 4000 + b"}", "version"),
}


def test_number_of_values_is_bounded_before_they_are_read(tmp_path: Path) -> None:
    path = tmp_path / "many.json"
    path.write_bytes(HOSTILE["many values"][0])
    expect_error(path, "file", "expected at most 4194304 values, got 4194306", "smaller")


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_text_is_refused(tmp_path: Path, case: str) -> None:
    data, field = HOSTILE[case]
    path = tmp_path / "hostile.json"
    path.write_bytes(data)
    with pytest.raises(InstanceFileError) as caught:
        read_instance(path)
    assert caught.value.field == field
    assert len(str(caught.value)) < 1000


def test_decompression_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import prescope.instances._json_file as json_file

    monkeypatch.setattr(json_file, "MAX_TEXT_BYTES", 2**20)
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(bytes(2**24), compresslevel=1))
    expect_error(path, "file", "1048576 decompressed, got at least 1048577", "smaller")


def test_size_on_disk_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "big.json"
    with open(path, "wb") as stream:
        stream.truncate(limits.MAX_FILE_BYTES + 1)
    expect_error(path, "file", f"got at least {limits.MAX_FILE_BYTES + 1}", "smaller")


def test_gzip_with_something_behind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tail.json.gz"
    write_instance(path, small_file())
    path.write_bytes(path.read_bytes() + b"x")
    expect_error(path, "file", "expected nothing behind the gzip data, got 1 bytes", "damaged")


def test_other_things_than_files_are_refused(tmp_path: Path) -> None:
    folder, pipe = tmp_path / "folder.json", tmp_path / "pipe.json"
    folder.mkdir()
    os.mkfifo(pipe)
    expect_error(folder, "file", "regular file", "Name a file")
    expect_error(pipe, "file", "regular file", "Name a file")
    expect_error(tmp_path / "absent.json", "file", "No such file", "Check the path")
    expect_error(tmp_path / "name.txt", "file", ".json or .json.gz", "Rename")


def test_plan_is_not_an_instance_and_back(tmp_path: Path) -> None:
    path = tmp_path / "x.plan.json"
    file = small_file()
    write_instance(path, file)
    with pytest.raises(InstanceFileError, match="read_instance"):
        read_plan(path)


def test_error_survives_a_process_border() -> None:
    error = InstanceFileError("a.json", "f", "p", "r")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (str(again), again.field) == (str(error), "f")
