"""Independent strict readers of routing logs: plain Python, no numpy, the whole file at once."""

from __future__ import annotations

import math
import re
from typing import Any

from strict_json import strict_json

Meaning = dict[str, Any]
"""Lengths of sequences; per token its phase, ids, weights, token id, padding; and what the header says."""

_INTEGER = re.compile(r"\s*[+-]?[0-9]+\s*")


def read_strictly(kind: str, data: bytes) -> Meaning:
    """What a log says; ``ValueError`` when it is not one."""
    return _csv(data) if kind == "csv" else _jsonl(data)


def _csv(data: bytes) -> Meaning:
    if not data.endswith(b"\n"):
        raise ValueError("cut")
    facts: dict[str, Any] = {}
    layer_bytes: dict[int, dict[str, int]] = {}
    lines = data[:-1].split(b"\n")
    while lines and lines[0].startswith(b"#"):
        _preamble(lines.pop(0)[1:].decode().strip(), facts, layer_bytes)
    names = [name.strip() for name in lines.pop(0).decode().split(",")]
    layers, width = int(facts["layers"]), int(facts["top_k"])
    tokens: dict[tuple[int, int], dict[str, Any]] = {}
    sizes: dict[int, int] = {
        layer: found["expert_bytes"] for layer, found in layer_bytes.items() if "expert_bytes" in found
    }
    weighted = 0
    for line in lines:
        fields = line.decode("ascii").split(",")
        if len(fields) != len(names):
            raise ValueError("fields")
        row: dict[str, Any] = {}
        for name, text in zip(names, fields, strict=True):
            if name == "weight":
                row[name] = float(text)
            elif name in (
                "turn",
                "phase",
                "step",
                "layer",
                "slot",
                "expert",
                "expert_bytes",
                "token",
                "padding",
            ):
                if not _INTEGER.fullmatch(text):
                    raise ValueError("number")
                row[name] = int(text)
        token = tokens.setdefault(
            (row["turn"], row["step"]),
            {
                "phase": row["phase"],
                "token": row.get("token"),
                "padding": row.get("padding", 0),
                "entries": {},
            },
        )
        if (token["phase"], token["token"], token["padding"]) != (
            row["phase"],
            row.get("token"),
            row.get("padding", 0),
        ):
            raise ValueError("token differs")
        if (row["layer"], row["slot"]) in token["entries"] or not 0 <= row["layer"] < layers:
            raise ValueError("entry")
        if not 0 <= row["slot"] < width or not -1 <= row["expert"] < int(facts["experts"]):
            raise ValueError("range")
        weight = row.get("weight", math.nan)
        weighted += not math.isnan(weight)
        token["entries"][row["layer"], row["slot"]] = row["expert"], weight
        if (
            row.get("expert_bytes")
            and sizes.setdefault(row["layer"], row["expert_bytes"]) != row["expert_bytes"]
        ):
            raise ValueError("sizes")
    if weighted not in (0, len(lines)) or int(facts.get("rows", len(lines))) != len(lines):
        raise ValueError("weights or rows")
    ordered = sorted(tokens)
    whole = [tokens[key] for key in ordered]
    turns = [turn for turn, _ in ordered]
    dense = {layer: found["dense_bytes"] for layer, found in layer_bytes.items() if "dense_bytes" in found}

    def entries(place: int, default: float) -> list[Any]:
        return [
            [
                [t["entries"].get((layer, slot), (-1, 0.0))[place] for slot in range(width)]
                for layer in range(layers)
            ]
            for t in whole
        ]

    return {
        "lengths": [turns.count(turn) for turn in sorted(set(turns))],
        "phase": [t["phase"] for t in whole],
        "ids": entries(0, -1),
        "weights": entries(1, 0.0) if weighted else None,
        "tokens": [t["token"] for t in whole] if "token" in names else None,
        "padding": [bool(t["padding"]) for t in whole],
        "expert_bytes": [sizes[layer] for layer in range(layers)] if sizes else None,
        "dense_bytes": [dense[layer] for layer in range(layers)] if dense else None,
        "kept_as": facts.get("weights", "float32"),
        "meta": {
            name: facts.get(name, "") for name in ("model", "fingerprint", "tokenizer", "source", "notes")
        }
        | {"experts": int(facts["experts"]), "top_k": width},
    }


def _preamble(text: str, facts: dict[str, Any], layer_bytes: dict[int, dict[str, int]]) -> None:
    if text.startswith("layer="):
        pairs = dict(pair.split("=", 1) for pair in text.split())
        layer = int(pairs.pop("layer"))
        if layer in layer_bytes:
            raise ValueError("layer twice")
        layer_bytes[layer] = {
            name: int(pairs[name]) for name in ("expert_bytes", "dense_bytes") if name in pairs
        }
        return
    key, colon, value = text.partition(":")
    key = key.strip()
    if not colon or not re.fullmatch(r"[\w-]+", key):
        return
    if key in facts:
        raise ValueError("key twice")
    value = value.strip()
    facts[key] = str(strict_json(value.encode())) if value.startswith('"') else value


def _jsonl(data: bytes) -> Meaning:
    if not data.endswith(b"\n"):
        raise ValueError("cut")
    header, *records = [strict_json(line) for line in data[:-1].split(b"\n")]
    layers, width = header["layers"], header["top_k"]
    tokens: list[dict[str, Any]] = []
    forward, first, count = None, 0, 0
    for record in records:
        ids, weights = record["ids"], record.get("weights")
        if record["forward"] != forward:
            forward, first = record["forward"], len(tokens)
            lists = [record.get(name) for name in ("phase", "sequences", "tokens", "padding")]
            count = next((len(value) for value in lists if isinstance(value, list)), len(ids))
            for row in range(count):
                phase = _of(record["phase"], row)
                tokens.append(
                    {
                        "sequence": _of(record["sequences"], row),
                        "phase": {"prefill": 0, "decode": 1}.get(phase, phase),
                        "token": _of(record.get("tokens"), row),
                        "padding": bool(_of(record.get("padding"), row)),
                        "ids": [[-1] * width for _ in range(layers)],
                        "weights": [[0.0] * width for _ in range(layers)],
                    }
                )
        for place, row in enumerate(record.get("rows", range(count))):
            token = tokens[first + row]
            token["ids"][record["layer"]] = ids[place]
            if weights is not None:
                token["weights"][record["layer"]] = weights[place]
    order = sorted(range(len(tokens)), key=lambda at: (tokens[at]["sequence"], at))
    whole = [tokens[at] for at in order]
    sequences = [token["sequence"] for token in whole]
    has_tokens = any("tokens" in record for record in records)
    return {
        "lengths": [sequences.count(sequence) for sequence in sorted(set(sequences))],
        "phase": [token["phase"] for token in whole],
        "ids": [token["ids"] for token in whole],
        "weights": [t["weights"] for t in whole] if any("weights" in record for record in records) else None,
        "tokens": [token["token"] for token in whole] if has_tokens else None,
        "padding": [token["padding"] for token in whole],
        "expert_bytes": header.get("expert_bytes"),
        "dense_bytes": header.get("dense_bytes"),
        "kept_as": header.get("weights", "float32"),
        "meta": {
            name: header.get(name, "")
            for name in ("model", "fingerprint", "tokenizer", "source", "notes", "experts", "top_k")
        },
    }


def _of(value: Any, row: int) -> Any:
    return value[row] if isinstance(value, list) else value
