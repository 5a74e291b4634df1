"""The page of a view, as a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from prescope.page.render import MAX_BYTES, write_document

if TYPE_CHECKING:
    from prescope.inspection import View
    from prescope.page.from_view import Progress


def write_page(
    view: View,
    path: str | os.PathLike[str],
    *,
    start: int = 0,
    max_bytes: int = MAX_BYTES,
    progress: Progress | None = None,
) -> int:
    """Write the page of what `prescope.inspection.open_view` opened, whole or not at all.

    Parameters
    ----------
    view
        Of any kind.
    path
        The HTML file.
    start
        Position of the step that is shown first.
    max_bytes
        What the file may weigh; where that is too little, some steps keep only their totals and maps.
    progress
        Called with how many steps are done, and of how many.

    Returns
    -------
    int
        Size of the file in bytes.

    Raises
    ------
    FileNotFoundError
        When the folder does not exist.
    ValueError
        When ``path`` is a folder, or there is no step at ``start``.
    """
    from prescope.page.from_view import page_document

    # Before minutes of work, not after.
    if Path(path).is_dir():
        raise ValueError(f"expected the name of a file for the page, got the folder {os.fspath(path)}")
    if not Path(path).parent.is_dir():
        raise FileNotFoundError(f"expected the folder {Path(path).parent} to exist, got none; make it first")
    return write_document(page_document(view, start=start, progress=progress), path, max_bytes=max_bytes)
