"""The lines before the rows of a CSV log: ``# key: value``, or an engine's ``# key=value ...``."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from prescope.instances.importers.log_header import LOG_VERSION, LogHeader
from prescope.instances.limits import MAX_BYTES, MAX_EXPERTS, MAX_LAYERS
from prescope.instances.routing_trace import TraceMeta

_NUMBERS = {
    "prescope-routing-log": 2**31,
    "experts": MAX_EXPERTS,
    "top_k": MAX_EXPERTS,
    "layers": MAX_LAYERS,
    "rows": 2**62,
}
_TEXTS = ("model", "fingerprint", "tokenizer", "source", "notes", "weights")
KEYS = (*_NUMBERS, *_TEXTS)

_KEY_VALUE = re.compile(r"(?P<key>[\w-]+)\s*:\s*(?P<value>.*)", re.DOTALL)
_ENGINE_KEYS = {"model": "model", "n_expert": "experts", "n_expert_used": "top_k", "n_layer": "n_layer"}


@dataclass(slots=True)
class Preamble:
    """Collects the preamble's lines; each raises ``ValueError`` with what is wrong about it."""

    found: dict[str, Any] = field(default_factory=dict)
    layer_bytes: dict[int, tuple[int | None, int | None]] = field(default_factory=dict)

    @property
    def from_engine(self) -> bool:
        """Whether a streaming engine wrote the log, whose ``expert_bytes`` column is what it read."""
        return "n_layer" in self.found

    def line(self, text: str) -> None:
        """Take one line without its ``#``."""
        text = text.strip()
        if re.match(r"\w+=", text):
            self._pairs(_pairs_of(text))
        elif match := _KEY_VALUE.fullmatch(text):
            key = match["key"]
            if key not in KEYS:
                raise ValueError(f"expected one of the keys {', '.join(KEYS)}, got {key!r:.60}")
            self._set(key, _text(match["value"]) if key in _TEXTS else match["value"])

    def header(self, *, sizes: dict[int, int]) -> LogHeader:
        """What was found; ``sizes`` are bytes of an expert, by layer, that only rows told."""
        found = self.found
        missing = [key for key in ("model", "experts", "top_k") if key not in found]
        if "layers" not in found and not self.from_engine:
            missing.append("layers")
        if missing:
            raise ValueError(
                f"expected the keys model, experts, top_k and layers, got no {', '.join(missing)}"
            )
        numbers = self._numbers()
        meta = {
            key: found[key]
            for key in ("model", "fingerprint", "tokenizer", "source", "notes")
            if key in found
        }
        return LogHeader(
            meta=TraceMeta(experts=found["experts"], top_k=found["top_k"], **meta),
            layers=len(numbers),
            numbers=numbers,
            weights=found.get("weights", "float32"),
            expert_bytes=_complete("expert_bytes", numbers, self._sizes(0) or sizes),
            dense_bytes=_complete("dense_bytes", numbers, self._sizes(1)),
            size=found.get("rows"),
        )

    def _sizes(self, place: int) -> dict[int, int]:
        return {layer: size for layer, pair in self.layer_bytes.items() if (size := pair[place]) is not None}

    def _numbers(self) -> tuple[int, ...]:
        """MoE layers by the log's numbers; an engine's dense layers have experts of no bytes."""
        if "layers" in self.found:
            numbers = tuple(range(self.found["layers"]))
            beyond = [layer for layer in self.layer_bytes if layer not in numbers]
            if beyond:
                raise ValueError(
                    f"expected layers in [0, {len(numbers) - 1}], got the sizes of layer {beyond[0]}"
                )
            return numbers
        known = self._sizes(0)
        return tuple(layer for layer in range(self.found["n_layer"]) if known.get(layer, 1) > 0)

    def _pairs(self, pairs: dict[str, str]) -> None:
        if "layer" in pairs:
            layer = _number("layer", pairs["layer"], MAX_LAYERS - 1)
            if layer in self.layer_bytes:
                raise ValueError(f"expected each layer once, got layer {layer} again")
            expert, dense = (
                _number(name, pairs[name], MAX_BYTES) if name in pairs else None
                for name in ("expert_bytes", "dense_bytes")
            )
            self.layer_bytes[layer] = expert, dense
            return
        for key, value in pairs.items():
            if key in _ENGINE_KEYS:
                # A local path says nothing to others and may say too much.
                self._set(
                    _ENGINE_KEYS[key],
                    value.replace("\\", "/").rpartition("/")[2] if key == "model" else value,
                )

    def _set(self, key: str, value: str) -> None:
        if key in self.found:
            raise ValueError(f"expected each key once, got {key} again")
        if key in _TEXTS:
            self.found[key] = value
            return
        self.found[key] = _number(key, value, _NUMBERS.get(key, MAX_LAYERS))
        if key == "prescope-routing-log" and self.found[key] != LOG_VERSION:
            hint = "; it was written by a newer prescope: upgrade" if self.found[key] > LOG_VERSION else ""
            raise ValueError(f"expected version {LOG_VERSION} of the log, got {value}{hint}")


def _pairs_of(text: str) -> dict[str, str]:
    """The values of ``key=value key=value``, in which there may be spaces."""
    values: dict[str, list[str]] = {}
    words: list[str] = []
    for word in text.split():
        key, equals, value = word.partition("=")
        if equals and re.fullmatch(r"\w+", key):
            if key in values:
                raise ValueError(f"expected each key once, got {key!r:.60} again")
            words = values[key] = [value]
        else:
            words.append(word)
    return {key: " ".join(found) for key, found in values.items()}


def preamble_text(value: str) -> str:
    """A text as a preamble holds it: as it is, or as JSON where that would not read back."""
    plain = value == value.strip() and value.isprintable() and not value.startswith('"')
    return value if plain else json.dumps(value)


def _text(value: str) -> str:
    if not value.startswith('"'):
        return value
    try:
        text = json.loads(value)
    except ValueError as error:
        raise ValueError(f"expected JSON after a quotation mark, got {error}") from error
    return str(text)


def _number(name: str, text: str, high: int) -> int:
    if not re.fullmatch(r"[0-9]{1,19}", text) or int(text) > high:
        raise ValueError(f"expected {name} as a number in [0, {high}], got {text!r:.60}")
    return int(text)


def _complete(name: str, numbers: tuple[int, ...], sizes: dict[int, int]) -> tuple[int, ...] | None:
    if not any(layer in sizes for layer in numbers):
        return None
    missing = [layer for layer in numbers if layer not in sizes]
    if missing:
        raise ValueError(f"expected {name} of every layer or of none, got none of layer {missing[0]}")
    return tuple(sizes[layer] for layer in numbers)
