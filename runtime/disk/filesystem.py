"""What kind of file system a file lies on."""

from __future__ import annotations

import os
from pathlib import Path

# Their files are memory already.
IN_MEMORY = ("tmpfs", "ramfs")


def filesystem_type(file: Path) -> str | None:
    """Name of the file system, such as ``"ext4"``; ``None`` where Linux's mount table does not say."""
    try:
        device = os.stat(file).st_dev
        table = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in table.splitlines():
        mount, _, kind = line.partition(" - ")
        fields = mount.split()
        if len(fields) > 2 and fields[2] == wanted and kind:
            return kind.split()[0]
    return None
