"""A document as one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import logging
import os
from importlib.resources import files
from pathlib import Path
from typing import Any

from prescope.instances._atomic import atomic_file
from prescope.page.document import PageDocument
from prescope.page.pack import packed, shorten

logger = logging.getLogger(__name__)

MAX_BYTES = 2_000_000
"""What a page may weigh."""

# Joined in this order to one script; each file is one idea.
SCRIPTS = (
    "dom.js",
    "units.js",
    "codec.js",
    "palette.js",
    "model.js",
    "tooltip.js",
    "header.js",
    "steps.js",
    "timeline_rows.js",
    "timeline_draw.js",
    "timeline.js",
    "task_details.js",
    "layers.js",
    "usage.js",
    "waterfall.js",
    "cells.js",
    "residency.js",
    "demand.js",
    "panels.js",
    "main.js",
)


def render_page(document: PageDocument, *, max_bytes: int = MAX_BYTES) -> str:
    """One HTML page.

    Everything is inside: no request leaves it, and its content security policy would forbid one. What comes
    from files is never markup: the script writes it as text, and ``<`` does not occur in the embedded data.

    Parameters
    ----------
    document
        What to show.
    max_bytes
        What the page may weigh. Where that is too little, some steps lose their tasks, and where that does
        not suffice their demands; they keep their totals and maps, and the page says so at each of them.
    """
    style = _asset("page.css")
    script = "'use strict';\n(() => {\n" + "\n".join(_asset(name) for name in SCRIPTS) + "\n})();\n"
    data = packed(document)
    page = _page(document, style, script, data)
    over_bytes = len(page.encode()) - max_bytes
    if over_bytes <= 0:
        return page
    if shorten(data, over_bytes) < over_bytes:
        logger.warning("the page of %s is larger than %d bytes even without tasks", document.title, max_bytes)
    return _page(document, style, script, data)


def write_document(
    document: PageDocument, path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES
) -> int:
    """Write a page, whole or not at all, and return its size in bytes; arguments as of `render_page`."""
    data = render_page(document, max_bytes=max_bytes).encode()
    with atomic_file(Path(path)) as stream:
        stream.write(data)
    return len(data)


def _page(document: PageDocument, style: str, script: str, data: dict[str, Any]) -> str:
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    # Neither "</script>" nor "<!--" can end or change the element that holds the data.
    text = text.replace("<", "\\u003c")
    values = {
        "{{title}}": html.escape(f"{document.title} - prescope"),
        "{{policy}}": html.escape(_policy(style, script)),
        "{{style}}": style,
        "{{data}}": text,
        "{{script}}": script,
    }
    out = []
    rest = _asset("page.html")
    # Piece by piece, so that a value that contains a placeholder stays as it is.
    for name, value in values.items():
        before, rest = rest.split(name)
        out += [before, value]
    return "".join((*out, rest))


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; style-src '{_sha256(style)}'; script-src '{_sha256(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _sha256(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _asset(name: str) -> str:
    return (files("prescope.page") / "assets" / name).read_text(encoding="utf-8")
