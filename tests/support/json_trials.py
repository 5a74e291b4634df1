"""Mutants of the JSON files, and whether each is refused or means what it says."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from cost_file_strategies import example_costs
from file_mutants import damaged_bytes, damaged_document, hostile_bytes, nudged_document, sealed
from strict_json import same_json, strict_json

from prescope.formulation import (
    Forecast,
    Lane,
    LayerPlan,
    Plan,
    PlanInfo,
    PredictedDemand,
    Schedule,
    TableTime,
    Task,
    TaskKind,
    Transfer,
)
from prescope.formulation.horizon import Horizon, HorizonPlan
from prescope.instances import (
    Bounds,
    HorizonFile,
    InstanceFile,
    InstanceFileError,
    Provenance,
    RecordedStep,
    Recording,
    cost_file,
    horizon_file,
    horizon_plan_file,
    instance_file,
    library_index,
    list_library,
    plan_file,
    read_costs,
    read_horizon,
    read_horizon_plan,
    read_instance,
    read_plan,
    read_recording,
    recording_file,
    synthetic_instance,
    write_costs,
    write_horizon,
    write_horizon_plan,
    write_instance,
    write_plan,
    write_recording,
)

Attempt = Callable[[int], str]
KINDS = ("instance", "plan", "index", "costs", "horizon", "horizon plan", "recording")


def example_file() -> InstanceFile:
    """An instance with everything that a file can hold."""
    instance = synthetic_instance("mixtral-8x7b", "a100-pcie4", 2, 1)
    shape = (1, *instance.demand.counts.shape)
    predicted = PredictedDemand(
        probabilities=np.full(shape, 0.25), expected_tokens=np.full(shape, 0.5), source="test"
    )
    table = TableTime(tokens=(1, 16), times_ns=(5, 9))
    instance = replace(
        instance,
        predicted=predicted,
        costs=replace(instance.costs, cpu=(table,)),
        prediction_ns=tuple(range(instance.layers)),
    )
    bounds = Bounds(optimum_ns=9, optimum_by="a", lower_bound_ns=9, lower_bound_by="b")
    return InstanceFile(instance=instance, provenance=Provenance(source="test", seed=1), bounds=bounds)


def example_plan() -> Plan:
    """A plan with every field in use."""
    layers = tuple(LayerPlan(gpu=(layer % 8,), cpu=(1, 2)) for layer in range(32))
    transfers = tuple(Transfer(layer=layer, expert=3, slot=layer % 4, gate=layer - 1) for layer in range(32))
    info = PlanInfo(method="m", parameters=(("a", "b"),), seed=3, makespan_ns=10, time_ns=4)
    return Plan(layers=layers, transfers=transfers, info=info)


def example_recording() -> Recording:
    """Two steps with everything that a file can hold: a schedule of its own, forecasts, notes."""
    instance = example_file().instance
    experts, layers = instance.experts, instance.layers
    schedule = Schedule(
        tasks=(Task(kind=TaskKind.COPY, lane=Lane.LINK, layer=1, expert=2, slot=0, start_ns=-5, end_ns=9),),
        layer_end_ns=tuple(range(1, layers + 1)),
        makespan_ns=layers,
    )
    forecast = Forecast(expected_tokens=np.full(experts, 0.5), probability=np.full(experts, 0.25))
    step = RecordedStep(
        index=0,
        instance=instance,
        plan=example_plan(),
        schedules={"planned": schedule, "measured": schedule},
        tokens=1,
        phase="decode",
        forecasts=(None, *(forecast,) * (layers - 1)),
        dilation=2.5,
        began_unix_ns=10**18,
        notes={"degraded": "x"},
    )
    later = replace(step, index=1, instance=replace(instance, residents=((0,), *instance.residents[1:])))
    return Recording(steps=(step, later), facts={"model": "m"})


def example_horizon() -> HorizonFile:
    """A horizon with everything that a file can hold."""
    file = example_file()
    instance = file.instance
    horizon = Horizon(
        name="rows",
        costs=instance.costs,
        demands=(instance.demand,) * 3,
        residents=instance.residents,
        slots=instance.slots,
        lookahead=instance.lookahead,
        predicted=(instance.predicted,) * 3,  # type: ignore[arg-type]
        history=((instance.demand,), (instance.demand,) * 2),
    )
    return HorizonFile(horizon=horizon, provenance=file.provenance, bounds=file.bounds)


def example_horizon_plan() -> HorizonPlan:
    """A horizon plan with every field in use."""
    residents = tuple((layer % 8,) for layer in range(32))
    return HorizonPlan(plans=(example_plan(),) * 3, residents=(residents,) * 3, method="m+n")


def write_example(kind: str, path: Path) -> None:
    """A valid file of a kind."""
    if kind == "instance":
        write_instance(path, example_file())
    elif kind == "plan":
        write_plan(path, example_plan(), example_file().instance)
    elif kind == "costs":
        write_costs(path, example_costs())
    elif kind == "horizon":
        write_horizon(path, example_horizon())
    elif kind == "horizon plan":
        write_horizon_plan(path, example_horizon_plan(), example_horizon().horizon)
    elif kind == "recording":
        write_recording(path, example_recording())
    else:
        library_index.write_index(path.parent, [*list_library()[:38], *list_library(sets=["horizons"])[:2]])


def read(kind: str, path: Path) -> Any:
    """What the package understands."""
    if kind == "index":
        return tuple(list_library(path.parent))
    if kind == "recording":
        # Recordings hold arrays and are not compared; their documents are.
        return recording_file._express(read_recording(path))
    readers: dict[str, Callable[[Path], Any]] = {
        "instance": read_instance,
        "plan": read_plan,
        "costs": read_costs,
        "horizon": read_horizon,
        "horizon plan": read_horizon_plan,
    }
    return readers[kind](path)


def again(kind: str, content: Any) -> Any:
    """What was understood, as a document again, read by the independent reader."""
    if kind == "recording":
        return strict_json(msgspec.json.encode(content))
    module = {
        "instance": instance_file,
        "plan": plan_file,
        "costs": cost_file,
        "index": library_index,
        "horizon": horizon_file,
        "horizon plan": horizon_plan_file,
    }[kind]
    return strict_json(msgspec.json.encode(module._express(content)))  # type: ignore[attr-defined]


def file_name(kind: str, *, compressed: bool) -> str:
    """A name that is read as this kind; an index has only one."""
    return "index.json" if kind == "index" else f"file.json{'.gz' if compressed else ''}"


def byte_trial(kind: str, folder: Path, *, inside_gzip: bool = False) -> Attempt:
    """Bytes are damaged; an index is never compressed, any other kind is, every second time."""
    plain, packed = folder / file_name(kind, compressed=False), folder / file_name(kind, compressed=True)
    write_example(kind, plain)
    whole, original = plain.read_bytes(), read(kind, plain)
    archive = gzip.compress(whole, mtime=0)

    def attempt(seed: int) -> str:
        rng = random.Random(f"{kind} bytes {seed}")
        damage = hostile_bytes if rng.random() < 0.1 else damaged_bytes
        path = plain
        if inside_gzip:
            path = packed
            path.write_bytes(gzip.compress(damage(whole, rng), compresslevel=1))
        elif kind != "index" and rng.random() < 0.5:
            path = packed
            path.write_bytes(damage(archive, rng))
        else:
            path.write_bytes(damage(whole, rng))
        try:
            content = read(kind, path)
        except InstanceFileError as error:
            return refused(error)
        assert content == original, "accepted with another meaning"
        return "accepted, unchanged"

    return attempt


def structure_trial(kind: str, folder: Path) -> Attempt:
    """Somebody alters the content and recomputes the checksum: the rules have to hold on their own."""
    path = folder / file_name(kind, compressed=False)
    write_example(kind, path)
    document = strict_json(path.read_bytes())

    def attempt(seed: int) -> str:
        rng = random.Random(f"{kind} structure {seed}")
        damage = nudged_document if rng.random() < 0.5 else damaged_document
        altered = damage(document, rng)
        while altered == document:
            altered = damage(document, rng)
        path.write_bytes(sealed(altered))
        try:
            content = read(kind, path)
        except InstanceFileError as error:
            return refused(error)
        said = strict_json(path.read_bytes())
        assert same_json(again(kind, content), said), "accepted with another meaning"
        if kind == "index":
            for entry in content:
                for name in (entry.path, entry.plan_path):
                    assert (folder / name).resolve().is_relative_to(folder.resolve()), name
        return "accepted, unchanged" if said == document else "accepted as it says"

    return attempt


def refused(error: InstanceFileError) -> str:
    """A refusal is short and says what to do."""
    assert error.problem and error.remedy and error.field
    assert len(str(error)) < 2000, "a message as long as the file"
    return "refused"
