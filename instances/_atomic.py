"""Write a file whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a temporary file beside ``path`` that takes its place when the block ends without an error.

    Raises
    ------
    FileNotFoundError
        When the folder does not exist.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(f"expected the folder {path.parent} to exist, got none; make it first")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
