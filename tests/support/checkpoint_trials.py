"""Mutants of trained predictors' folders, and whether each is refused or means what it says."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from file_mutants import damaged_bytes, damaged_document, hostile_bytes, nudged_document
from hidden_traces import SMALL, hidden_trace
from linked_traces import linked_trace
from safetensors.numpy import save
from strict_json import same_json, strict_json
from trace_trials import altered

from prescope.predictor.checkpoint_files import CheckpointError, _digest
from prescope.predictor.llapor import load_llapor, save_llapor, train_llapor
from prescope.predictor.routing_only import (
    RoutingOnlySettings,
    load_routing_only,
    save_routing_only,
    train_routing_only,
)
from prescope.predictor.split import split_sequences

Attempt = Callable[[int], str]
KINDS = ("llapor", "routing-only")
LOAD: dict[str, Callable[[Path], Any]] = {"llapor": load_llapor, "routing-only": load_routing_only}
SAVE: dict[str, Callable[..., None]] = {"llapor": save_llapor, "routing-only": save_routing_only}


@cache
def example(kind: str) -> Any:
    """A small trained predictor."""
    if kind == "llapor":
        return train_llapor(hidden_trace(), settings=SMALL)
    trace = linked_trace(sequences=4, tokens=12, layers=3)
    return train_routing_only(trace, split_sequences(trace), RoutingOnlySettings(horizons=2, window=2))


def trial(kind: str, way: str, folder: Path) -> Attempt:
    """Damage one of the two files as ``bytes``, the JSON's ``structure``, or the weights' ``arrays``."""
    place, written = folder / "mutant", folder / "again"
    SAVE[kind](place, example(kind), notes="n")
    text = (place / "predictor.json").read_bytes()
    weights = (place / "weights.safetensors").read_bytes()
    document, arrays = strict_json(text), tensors(weights)

    def attempt(seed: int) -> str:
        rng = random.Random(f"{kind} {way} {seed}")
        files = {"predictor.json": text, "weights.safetensors": weights}
        if way == "bytes":
            name = rng.choice(list(files))
            files[name] = (hostile_bytes if rng.random() < 0.1 else damaged_bytes)(files[name], rng)
        elif way == "structure":
            files["predictor.json"] = _sealed(_damaged(document, rng))
        else:
            data = _other_weights(arrays, rng)
            files["weights.safetensors"] = data
            files["predictor.json"] = _sealed({**document, "weights_sha256": _sha256(data)})
        for name, data in files.items():
            (place / name).write_bytes(data)
        try:
            model = LOAD[kind](place)
        except CheckpointError as error:
            assert 20 < len(str(error)) < 2000, "a message of no use"
            return "refused"
        SAVE[kind](written, model, notes=strict_json(files["predictor.json"])["notes"])
        said = strict_json(files["predictor.json"])
        again = strict_json((written / "predictor.json").read_bytes())
        for name in ("sha256", "weights_sha256"):
            del said[name], again[name]
        assert same_json(said, again, numbers=True), "accepted with another meaning"
        kept = tensors((written / "weights.safetensors").read_bytes())
        meant = tensors(files["weights.safetensors"])
        assert kept.keys() == meant.keys(), "accepted with another meaning"
        for name, array in meant.items():
            assert array.shape == kept[name].shape and np.array_equal(array, kept[name]), name
        same = files["predictor.json"] == text and files["weights.safetensors"] == weights
        return "accepted, unchanged" if same else "accepted as it says"

    return attempt


def tensors(data: bytes) -> dict[str, Any]:
    """An independent reader of safetensors: standard library and numpy views."""
    length = int.from_bytes(data[:8], "little")
    header = strict_json(data[8 : 8 + length])
    header.pop("__metadata__", None)
    kinds = {"F32": "<f4", "F16": "<f2", "I8": "i1", "U8": "u1", "I64": "<i8", "F64": "<f8", "BOOL": "?"}
    found = {}
    for name, entry in header.items():
        start, end = entry["data_offsets"]
        body = data[8 + length + start : 8 + length + end]
        found[name] = np.frombuffer(body, dtype=kinds[entry["dtype"]]).reshape(entry["shape"])
    return found


def _damaged(document: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    damage = nudged_document if rng.random() < 0.5 else damaged_document
    changed = damage(document, rng)
    while changed == document:
        changed = damage(document, rng)
    if rng.random() < 0.1:
        # Widths that must not be believed before arrays of that width were seen.
        holder = changed.get(rng.choice(["model", "settings"]))
        if isinstance(holder, dict) and holder:
            key = rng.choice(list(holder))
            inner = holder[key] if isinstance(holder[key], dict) else holder
            inner[rng.choice(list(inner))] = rng.choice([10**9, 2**40, 10**6])
    return changed


def _other_weights(arrays: dict[str, Any], rng: random.Random) -> bytes:
    changed = dict(arrays)
    name = rng.choice(list(changed))
    act = rng.randrange(6)
    if act == 0:
        del changed[name]
    elif act == 1:
        changed[rng.choice(["x", "", name + "2", "networks.99.linear"])] = changed[name]
    elif act == 2:
        other = rng.choice(list(changed))
        changed[name], changed[other] = changed[other], changed[name]
    else:
        changed[name] = altered(changed[name], rng)
        if changed[name].dtype.kind not in "fiub" or changed[name].dtype.byteorder == ">":
            changed[name] = (
                changed[name].real.astype(np.float32) if changed[name].dtype.kind == "c" else arrays[name]
            )
    return save({key: np.ascontiguousarray(value) for key, value in changed.items()})


def _sealed(document: dict[str, Any]) -> bytes:
    document = dict(document)
    if "sha256" in document:
        document["sha256"] = _digest(document)
    return json.dumps(document).encode()


def _sha256(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()
