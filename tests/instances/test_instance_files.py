"""Instance and plan files: what is written reads back equal, and what could not be read is not written."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from file_mutants import sealed
from file_strategies import instance_files, plans
from hypothesis import given, settings
from small_file import small_document, small_file

from prescope.formulation import CostModel, Demand, LayerPlan, LinearTime, Plan, PlanInfo, TableTime
from prescope.instances import (
    Bounds,
    InstanceFile,
    InstanceFileError,
    instance_digest,
    read_instance,
    read_plan,
    write_instance,
    write_plan,
)


@settings(max_examples=60)
@given(file=instance_files())
@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_instance_reads_back_equal(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, file: InstanceFile
) -> None:
    path = tmp_path_factory.getbasetemp() / f"round{suffix}"
    digest = write_instance(path, file)
    again = read_instance(path)
    assert again == file
    assert again.sha256 == file.sha256 == digest
    assert instance_digest(again.instance) == file.instance_sha256


@settings(max_examples=60)
@given(plan=plans())
@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_plan_reads_back_equal(tmp_path_factory: pytest.TempPathFactory, suffix: str, plan: Plan) -> None:
    path = tmp_path_factory.getbasetemp() / f"plan{suffix}"
    instance = small_file().instance
    digest = write_plan(path, plan, instance)
    again = read_plan(path)
    assert (again.plan, again.sha256) == (plan, digest)
    again.require_instance(instance)
    with pytest.raises(ValueError, match="expected instance 'mixtral-8x7b@a100-pcie4-b2-s1'"):
        again.require_instance(replace(instance, slots=5))


def test_same_content_gives_same_bytes(tmp_path: Path) -> None:
    for name in ("a.json.gz", "b.json.gz"):
        write_instance(tmp_path / name, small_file())
    first = (tmp_path / "a.json.gz").read_bytes()
    assert first == (tmp_path / "b.json.gz").read_bytes()
    assert first[4:8] == bytes(4), "no time in the header"
    assert first[3] == 0, "no name in the header"


def test_bounds_change_the_file_but_not_the_problem() -> None:
    file = small_file()
    better = replace(file, bounds=Bounds(lower_bound_ns=6, lower_bound_by="test"))
    assert better.sha256 != file.sha256
    assert better.instance_sha256 == file.instance_sha256


def test_checksum_is_as_documented(tmp_path: Path) -> None:
    document = small_document(tmp_path)
    assert json.loads(sealed(dict(document))) == document


def test_layout_of_the_text_does_not_matter(tmp_path: Path) -> None:
    document = small_document(tmp_path)
    path = tmp_path / "pretty.json"
    path.write_text(json.dumps(document, indent=1, sort_keys=True))
    assert read_instance(path) == small_file()


UNWRITABLE = {
    "lone surrogate": lambda file: replace(file, instance=replace(file.instance, name="\ud800")),
    "no name": lambda file: replace(file, instance=replace(file.instance, name="")),
    "long name": lambda file: replace(file, instance=replace(file.instance, name="x" * 201)),
    "beyond 64 bits": lambda file: replace(file, instance=replace(file.instance, slots=2**70)),
    "duration beyond the limit": lambda file: replace(
        file, instance=replace(file.instance, link_ready_ns=2**60)
    ),
}


@pytest.mark.parametrize("case", UNWRITABLE)
def test_what_could_not_be_read_is_not_written(tmp_path: Path, case: str) -> None:
    path = tmp_path / "kept.json"
    path.write_text("before")
    with pytest.raises(InstanceFileError):
        write_instance(path, UNWRITABLE[case](small_file()))
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["kept.json"]


def test_a_failing_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kept.json"
    path.write_text("before")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_instance(path, small_file())
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["kept.json"]


def test_plan_info_parameters_keep_their_order(tmp_path: Path) -> None:
    file = small_file()
    info = PlanInfo(method="m", parameters=(("b", "1"), ("a", "2")))
    plan = Plan(layers=(LayerPlan(),) * file.instance.layers, info=info)
    write_plan(tmp_path / "p.plan.json.gz", plan, file.instance)
    assert read_plan(tmp_path / "p.plan.json.gz").plan.info == info


def test_costs_of_both_kinds_keep_their_times(tmp_path: Path) -> None:
    table = TableTime(tokens=(1, 16, 64), times_ns=(100, 100, 350))
    file = small_file()
    costs = CostModel(
        expert_bytes=(1,) * 32,
        link=file.instance.costs.link,
        gpu=(table,),
        cpu=(LinearTime(fixed_ns=7, per_token_ns=1.25),),
        dense=(table,) * 32,
    )
    demand = Demand(counts=np.full((32, 8), 2), batch_tokens=2)
    write_instance(
        tmp_path / "t.json", replace(file, instance=replace(file.instance, costs=costs, demand=demand))
    )
    again = read_instance(tmp_path / "t.json").instance
    assert [again.costs.gpu_ns(0, n) for n in (1, 20, 100)] == [table(n) for n in (1, 20, 100)]
    assert again.costs.cpu_ns(0, 3) == 7 + round(3.75)
