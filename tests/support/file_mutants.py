"""Seeded damage to files: to their bytes, and to their structure."""

from __future__ import annotations

import copy
import hashlib
import json
import random
from typing import Any

import msgspec

NASTY: tuple[Any, ...] = (
    None,
    True,
    False,
    -1,
    0,
    1,
    7,
    2**31,
    2**62,
    2**63,
    2**64,
    2**70,
    1.5,
    -0.0,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "x",
    "\ud800",
    "x" * 20_000,
    [],
    {},
    [[]],
    {"kind": "linear"},
)


def damaged_bytes(data: bytes, rng: random.Random) -> bytes:
    """Flip, replace, insert, delete, repeat or cut bytes; up to three times."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(changed) + 1)
        span = rng.randint(1, 8)
        kind = rng.randrange(7)
        if kind == 0 and at < len(changed):
            changed[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            changed[at : at + 1] = bytes([rng.randrange(256)])
        elif kind == 2:
            changed[at:at] = rng.randbytes(span)
        elif kind == 3:
            del changed[at : at + span]
        elif kind == 4:
            changed[at:at] = changed[at : at + span]
        elif kind == 5:
            changed[at : at + 1] = rng.choice([b"9", b"-", b"0", b'"', b",", b"[", b"}", b"e", b"."])
        else:
            del changed[at:]
    return bytes(changed)


def damaged_document(document: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """Change values, keys and lists somewhere in a JSON document; up to three times."""
    changed = copy.deepcopy(document)
    for _ in range(rng.randint(1, 3)):
        holder, key = _somewhere(changed, rng)
        kind = rng.randrange(6)
        value = holder[key]
        if kind == 0:
            del holder[key]
        elif kind == 1:
            holder[key] = copy.deepcopy(rng.choice(NASTY))
        elif kind == 2 and isinstance(value, int) and not isinstance(value, bool):
            holder[key] = value + rng.choice([-1, 1, 1000, -(2 * value)])
        elif kind == 3 and isinstance(holder, dict):
            holder[key + rng.choice(["", "_", "x"])] = holder.pop(key)
        elif kind == 4 and isinstance(value, list) and value:
            value.insert(rng.randrange(len(value) + 1), copy.deepcopy(rng.choice(value)))
        elif kind == 5 and isinstance(value, list) and len(value) > 1:
            a, b = rng.sample(range(len(value)), 2)
            value[a], value[b] = value[b], value[a]
    return changed


def sealed(document: dict[str, Any]) -> bytes:
    """The document as text, with the checksum of its content where it has a place for one."""
    if "sha256" in document:
        document["sha256"] = ""
        document["sha256"] = hashlib.sha256(text_of(document)).hexdigest()
    return text_of(document)


def text_of(document: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(document)
    except (OverflowError, UnicodeEncodeError):
        return json.dumps(document, separators=(",", ":")).encode()


def _somewhere(document: dict[str, Any], rng: random.Random) -> tuple[Any, Any]:
    """A place in the document; large arrays do not crowd out the rest."""
    holder: Any = document
    while True:
        key = rng.choice(list(holder)) if isinstance(holder, dict) else rng.randrange(len(holder))
        inner = holder[key]
        if isinstance(inner, dict | list) and inner and rng.random() < 0.8:
            holder = inner
        else:
            return holder, key


def hostile_bytes(data: bytes, rng: random.Random) -> bytes:
    """Insert what makes careless readers slow, deep or large."""
    at = rng.randrange(len(data) + 1)
    piece = rng.choice(
        [
            b"[" * 100_000,
            b'{"a":' * 20_000,
            b"9" * 50_000,
            b"1e" + b"9" * 400,
            b"-",
            b"0." + b"0" * 50_000 + b"1",
            b'"' + b"\\u0000" * 5000 + b'"',
            b"\x00" * 1000,
            b"\xff\xfe",
            b"\n" * 10_000,
            b"," * 100_000,
            b"\xf0\x9f\x92\xa9" * 1000,
        ]
    )
    return data[:at] + piece + data[at:]


def nudged_document(document: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """Change one value a little, so that the rules often still hold."""
    changed = copy.deepcopy(document)
    while True:
        holder, key = _somewhere(changed, rng)
        value = holder[key]
        if isinstance(value, bool):
            holder[key] = not value
        elif isinstance(value, int):
            holder[key] = max(0, value + rng.choice([-1, 1, 2]))
        elif isinstance(value, float):
            holder[key] = value / 2
        elif isinstance(value, str) and key not in ("format", "kind", "tier", "sha256"):
            holder[key] = value + "x"
        elif isinstance(value, list) and len(value) > 1 and rng.random() < 0.3:
            value[0], value[-1] = value[-1], value[0]
        if changed != document:
            return changed
