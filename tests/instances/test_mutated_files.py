"""Thousands of damaged files: each is refused as such, or means exactly what it says.

MUTANTS sets how many of each kind are made of each file.
"""

import gzip
import json
import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_mutants import damaged_bytes, damaged_document, sealed

from prescope.formulation import LayerPlan, Plan, PlanInfo, PredictedDemand, TableTime, Transfer
from prescope.instances import (
    Bounds,
    InstanceFile,
    InstanceFileError,
    Provenance,
    read_instance,
    read_plan,
    synthetic_instance,
    write_instance,
    write_plan,
)

MUTANTS = int(os.environ.get("MUTANTS", "300"))


def example_file() -> InstanceFile:
    instance = synthetic_instance("mixtral-8x7b", "a100-pcie4", 2, 1)
    shape = (1, *instance.demand.counts.shape)
    predicted = PredictedDemand(
        probabilities=np.full(shape, 0.25), expected_tokens=np.full(shape, 0.5), source="test"
    )
    table = TableTime(tokens=(1, 16), times_ns=(5, 9))
    instance = replace(instance, predicted=predicted, costs=replace(instance.costs, cpu=(table,)))
    bounds = Bounds(optimum_ns=9, optimum_by="a", lower_bound_ns=9, lower_bound_by="b")
    return InstanceFile(instance=instance, provenance=Provenance(source="test", seed=1), bounds=bounds)


def example_plan() -> Plan:
    layers = tuple(LayerPlan(gpu=(layer % 8,), cpu=(1, 2)) for layer in range(32))
    transfers = tuple(Transfer(layer=layer, expert=3, slot=layer % 4, gate=layer - 1) for layer in range(32))
    info = PlanInfo(method="m", parameters=(("a", "b"),), seed=3, makespan_ns=10, time_ns=4)
    return Plan(layers=layers, transfers=transfers, info=info)


def write_example(kind: str, path: Path) -> None:
    if kind == "instance":
        write_instance(path, example_file())
    else:
        write_plan(path, example_plan(), example_file().instance)


def rewrite(kind: str, content: Any, path: Path) -> dict[str, Any]:
    """What was understood, written again and read as plain JSON."""
    if kind == "instance":
        write_instance(path, content)
    else:
        write_plan(path, content.plan, example_file().instance)
    loaded: dict[str, Any] = json.loads(path.read_bytes())
    return loaded


READ: dict[str, Callable[[Path], Any]] = {"instance": read_instance, "plan": read_plan}


@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
@pytest.mark.parametrize("kind", READ)
def test_damaged_bytes_never_change_the_meaning(tmp_path: Path, kind: str, suffix: str) -> None:
    path = tmp_path / f"file{suffix}"
    write_example(kind, path)
    whole, original = path.read_bytes(), READ[kind](path)
    refused = 0
    for seed in range(MUTANTS):
        path.write_bytes(damaged_bytes(whole, random.Random(seed)))
        try:
            assert READ[kind](path) == original, f"seed {seed}"
        except InstanceFileError:
            refused += 1
    assert refused > 0.8 * MUTANTS


@pytest.mark.parametrize("kind", READ)
def test_damaged_text_inside_gzip_never_changes_the_meaning(tmp_path: Path, kind: str) -> None:
    """Damage before compression: the archive is whole, so only the checksum stands in the way."""
    path = tmp_path / "file.json.gz"
    write_example(kind, path)
    whole, original = gzip.decompress(path.read_bytes()), READ[kind](path)
    for seed in range(MUTANTS // 2):
        damaged = damaged_bytes(whole, random.Random(-1 - seed))
        path.write_bytes(gzip.compress(damaged, compresslevel=1))
        try:
            assert READ[kind](path) == original, f"seed {seed}"
        except InstanceFileError:
            continue


@pytest.mark.parametrize("kind", READ)
def test_altered_documents_mean_what_they_say_or_are_refused(tmp_path: Path, kind: str) -> None:
    """Somebody alters the content and recomputes the checksum: the rules have to hold on their own."""
    path = tmp_path / "file.json"
    write_example(kind, path)
    document = json.loads(path.read_bytes())
    accepted = 0
    for seed in range(2 * MUTANTS):
        altered = damaged_document(document, random.Random(seed))
        path.write_bytes(sealed(altered))
        try:
            content = READ[kind](path)
        except InstanceFileError as error:
            assert len(str(error)) < 2000, f"seed {seed}"
            continue
        accepted += 1
        said = json.loads(path.read_bytes())
        again = rewrite(kind, content, tmp_path / "again.json")
        if kind == "plan":
            # A plan is written for an instance; whatever instance the altered file named is not the test's.
            assert (content.instance_name, content.instance_sha256) == (
                said["instance_name"],
                said["instance_sha256"],
            )
            for name in ("instance_name", "instance_sha256", "sha256"):
                del said[name], again[name]
        assert again == said, f"seed {seed}"
    assert accepted > 0.05 * MUTANTS, "the damage is too coarse to test anything"
