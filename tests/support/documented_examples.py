"""Finds the examples of a Markdown page: fenced blocks by language, in order."""

import re
from pathlib import Path

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def examples(page: Path) -> list[tuple[str, str]]:
    """(language, text) of every fenced block with a language."""
    return [(match.group(1), match.group(2)) for match in FENCE.finditer(page.read_text(encoding="utf-8"))]


def commands(text: str) -> list[str]:
    """What follows the prompt `$ ` in a console example."""
    return [line[2:] for line in text.splitlines() if line.startswith("$ ")]
