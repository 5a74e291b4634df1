"""Mutants of routing logs, and whether each is refused or means what it says."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from example_traces import example_trace, same_trace
from file_mutants import damaged_bytes, damaged_document, hostile_bytes, nudged_document, text_of
from json_trials import refused
from strict_logs import read_strictly

from prescope.instances import InstanceFileError, RoutingTrace
from prescope.instances.importers import read_csv_log, read_jsonl_log, write_csv_log, write_jsonl_log

Attempt = Callable[[int], str]
KINDS = ("csv", "jsonl")
READ: dict[str, Callable[..., RoutingTrace]] = {"csv": read_csv_log, "jsonl": read_jsonl_log}
WRITE: dict[str, Callable[..., None]] = {"csv": write_csv_log, "jsonl": write_jsonl_log}

ODD_FIELDS = (
    *("", "-1", "-2", "0", "1", "3", "300", "2147483648", "9" * 30, "nan", "inf", "1e400", "0x1", "1_0"),
    *("+1", " 2", "1.0", '"1"', "é"),
)


def example() -> RoutingTrace:
    """A small trace with everything a log can hold."""
    trace = example_trace(lengths=((2, 2), (1, 1)), layers=2, experts=5)
    padding = np.zeros(trace.tokens, dtype=bool)
    padding[1] = True
    return replace(trace, hidden=None, padding=padding)


def byte_trial(kind: str, folder: Path) -> Attempt:
    """Bytes are damaged, in the text or, every third time, in the compressed file."""
    plain, packed = folder / f"log.{kind}", folder / f"log.{kind}.gz"
    original = example()
    WRITE[kind](plain, original)
    whole = plain.read_bytes()
    archive = gzip.compress(whole, mtime=0)

    def attempt(seed: int) -> str:
        rng = random.Random(f"{kind} log bytes {seed}")
        damage = hostile_bytes if rng.random() < 0.1 else damaged_bytes
        if rng.random() < 1 / 3:
            packed.write_bytes(damage(archive, rng))
            return _judged(kind, packed, None, original)
        data = damage(whole, rng)
        plain.write_bytes(data)
        return _judged(kind, plain, data, original)

    return attempt


def structure_trial(kind: str, folder: Path) -> Attempt:
    """Fields, lines and records change, vanish, appear twice or in another order."""
    path = folder / f"log.{kind}"
    original = example()
    WRITE[kind](path, original)
    lines = path.read_bytes()[:-1].split(b"\n")

    def attempt(seed: int) -> str:
        rng = random.Random(f"{kind} log structure {seed}")
        changed = list(lines)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(changed))
            act = rng.randrange(8)
            if act == 0 and len(changed) > 1:
                del changed[at]
            elif act == 1:
                changed.insert(at, rng.choice(changed))
            elif act == 2:
                other = rng.randrange(len(changed))
                changed[at], changed[other] = changed[other], changed[at]
            else:
                changed[at] = _other_line(kind, changed[at], rng)
        data = b"\n".join(changed) + b"\n"
        path.write_bytes(data)
        return _judged(kind, path, data, original)

    return attempt


def _other_line(kind: str, line: bytes, rng: random.Random) -> bytes:
    if kind == "jsonl":
        damage = nudged_document if rng.random() < 0.5 else damaged_document
        try:
            return text_of(damage(msgspec.json.decode(line), rng))
        except (msgspec.DecodeError, UnicodeDecodeError):
            # An earlier change left no JSON of it.
            return line[: rng.randrange(len(line) + 1)]
    if line.startswith(b"#"):
        return rng.choice(
            [
                line.replace(b":", b" :", 1),
                line.rstrip(b"0123456789") + b"3",
                line[:-1],
                b"#",
                b"# x=1 y=2",
                line,
            ]
        )
    fields = line.split(b",")
    at = rng.randrange(len(fields))
    act = rng.randrange(4)
    if act == 0:
        fields[at] = rng.choice(ODD_FIELDS).encode()
    elif act == 1:
        other = rng.randrange(len(fields))
        fields[at], fields[other] = fields[other], fields[at]
    elif act == 2:
        del fields[at]
    elif fields[at].isdigit():
        fields[at] = str(int(fields[at]) + rng.choice([-1, 1])).encode()
    return b",".join(fields)


def _judged(kind: str, path: Path, data: bytes | None, original: RoutingTrace) -> str:
    """Compare with the independent reader; of a damaged archive only the original may be left."""
    try:
        trace = READ[kind](path)
    except InstanceFileError as error:
        return refused(error)
    if same_trace(trace, original):
        return "accepted, unchanged"
    assert data is not None, "accepted with another meaning"
    said = read_strictly(kind, data)
    assert meaning(trace, said["kept_as"]) == {**said, "weights": _rounded(said)}, (
        "accepted with another meaning"
    )
    return "accepted as it says"


def meaning(trace: RoutingTrace, kept_as: str) -> dict[str, Any]:
    """A trace in the words of `strict_logs`."""

    def values(array: Any) -> Any:
        return None if array is None else array.tolist()

    return {
        "lengths": np.diff(trace.seq_offsets).tolist(),
        "phase": trace.phase.tolist(),
        "ids": trace.topk_ids.tolist(),
        "weights": values(trace.topk_weights),
        "tokens": values(trace.token_ids),
        "padding": trace.padding.tolist(),
        "expert_bytes": values(trace.expert_bytes),
        "dense_bytes": values(trace.dense_bytes),
        "kept_as": kept_as,
        "meta": asdict(trace.meta),
    }


def _rounded(said: dict[str, Any]) -> Any:
    """Weights in the type that the log says they are kept in."""
    if said["weights"] is None:
        return None
    return np.array(said["weights"]).astype(said["kept_as"]).tolist()
