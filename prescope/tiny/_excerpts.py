"""Short excerpts of held-out files: prompts for generation and streams for teacher forcing.

They are shipped, so that every machine uses the same ones whatever its Python version.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from prescope.tiny._corpus import SourceFile

PROMPTS_FILE = Path(__file__).parent / "data" / "prompts.json"
SCHEMA = "prescope-prompts/1"
STREAM_TOKENS = 64
PROMPT_TOKENS = (12, 24)
PER_FILE = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """A few lines of a held-out file; `text` is 64 tokens long and starts with `prompt` (12 to 24 tokens)."""

    file: str
    line: int
    prompt: str
    text: str

    def __post_init__(self) -> None:
        if not self.prompt or not self.text.startswith(self.prompt):
            raise ValueError(f"expected text to start with the prompt {self.prompt!r}, got {self.text!r}")


def read_excerpts(path: Path = PROMPTS_FILE) -> tuple[Excerpt, ...]:
    """Read the shipped excerpts.

    Raises
    ------
    ValueError
        When the file has another schema; the message names it.
    """
    content = json.loads(path.read_text(encoding="utf-8"))
    if content.get("schema") != SCHEMA:
        raise ValueError(f"{path}: expected schema {SCHEMA!r}, got {content.get('schema')!r}")
    return tuple(Excerpt(**entry) for entry in content["excerpts"])


def write_excerpts(excerpts: Sequence[Excerpt], path: Path) -> None:
    """Write excerpts with their source and licence."""
    content = {
        "schema": SCHEMA,
        "source": f"standard library of Python {platform.python_version()}, files never trained on",
        "licence": "PSF-2.0, Copyright (c) Python Software Foundation",
        "excerpts": [asdict(excerpt) for excerpt in excerpts],
    }
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def select_excerpts(
    files: Sequence[SourceFile], tokenizer: Any, *, count: int, seed: int = 0
) -> tuple[Excerpt, ...]:
    """Pick `count` excerpts, at most six per file, that survive decoding and encoding token for token.

    Raises
    ------
    ValueError
        When the files do not hold that many.
    """
    rng = np.random.default_rng(seed)
    found: list[Excerpt] = []
    for file in files:
        found.extend(_of_file(file, tokenizer, rng))
    if len(found) < count:
        raise ValueError(f"expected held-out files with {count} excerpts, got {len(found)}")
    return tuple(found[index] for index in sorted(rng.permutation(len(found))[:count]))


def _of_file(file: SourceFile, tokenizer: Any, rng: np.random.Generator) -> Iterator[Excerpt]:
    lines = file.text.splitlines(keepends=True)
    taken = 0
    for line in rng.permutation(max(0, len(lines) - 4)):
        if taken == PER_FILE:
            return
        if not lines[line].strip() or lines[line][0].isspace():
            continue
        ids = tokenizer.encode("".join(lines[line : line + 40]), verbose=False)[:STREAM_TOKENS]
        cut = int(rng.integers(PROMPT_TOKENS[0], PROMPT_TOKENS[1] + 1))
        if len(ids) == STREAM_TOKENS and _stable(ids, tokenizer) and _stable(ids[:cut], tokenizer):
            prompt, text = tokenizer.decode(ids[:cut]), tokenizer.decode(ids)
            yield Excerpt(file=file.name, line=int(line) + 1, prompt=prompt, text=text)
            taken += 1


def _stable(ids: list[int], tokenizer: Any) -> bool:
    return bool(tokenizer.encode(tokenizer.decode(ids)) == ids)


def main() -> None:
    """Rebuild the shipped excerpts with the shipped tokenizer (``python -m prescope.tiny._excerpts``)."""
    from prescope.tiny import load_tiny
    from prescope.tiny._corpus import load_corpus

    _, tokenizer = load_tiny()
    write_excerpts(select_excerpts(load_corpus().heldout, tokenizer, count=96), PROMPTS_FILE)


if __name__ == "__main__":
    main()
