"""The disk that experts would be read from."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from prescope.doctor.finding import Finding, State
from prescope.formulation.units import format_bytes

_AREA = "disk"
_NETWORKED = frozenset(
    ("nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "afs", "ceph", "lustre", "gpfs", "beegfs", "glusterfs")
)


def examine_disk(folder: Path) -> Iterator[Finding]:
    """What kind of file system ``folder`` lies on, whether it reads past the page cache, and free space.

    Raises
    ------
    ValueError
        When there is no such folder.
    """
    from prescope.runtime.disk.filesystem import filesystem_type

    if not folder.is_dir():
        raise ValueError(f"expected a folder to examine, got none at {folder}")
    yield judge_filesystem(filesystem_type(folder))
    try:
        yield judge_direct_reads(direct_refusal(folder))
    except OSError as error:
        yield Finding(
            area=_AREA,
            name="direct reads",
            state=State.NOTE,
            found=f"not tried: no file can be written in {folder} ({error.strerror})",
            remedy="name a folder on the same disk that can be written, with --folder",
        )
    yield Finding(
        area=_AREA, name="free space", state=State.OK, found=format_bytes(shutil.disk_usage(folder).free)
    )


def judge_filesystem(kind: str | None) -> Finding:
    """Judge the kind of a file system; ``None`` where it is not known."""
    from prescope.runtime.disk.filesystem import IN_MEMORY

    if kind in IN_MEMORY:
        return Finding(
            area=_AREA,
            name="file system",
            state=State.DEGRADED,
            found=kind,
            effect="its files are memory: experts would be kept twice",
            remedy="put the model on a disk",
        )
    # Programs that serve files (fuse.sshfs, fuse.s3fs); fuseblk is a disk.
    if kind is not None and (kind in _NETWORKED or kind.split(".")[0] == "fuse"):
        return Finding(
            area=_AREA,
            name="file system",
            state=State.DEGRADED,
            found=kind,
            effect="experts would come through a network or another system, with times that vary",
            remedy="put the model on a local disk",
        )
    return Finding(area=_AREA, name="file system", state=State.OK, found=kind or "not known")


def direct_refusal(folder: Path) -> str:
    """Why files in ``folder`` cannot be read past the page cache; empty when they can.

    Raises
    ------
    OSError
        When no file can be written there to find out.
    """
    from prescope.runtime.disk.buffers import BufferPool
    from prescope.runtime.disk.calls import SystemCalls
    from prescope.runtime.disk.files import BLOCK_BYTES, DiskFile

    size_bytes = 4 * BLOCK_BYTES
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".prescope-doctor-") as stream:
        stream.write(bytes(size_bytes))
        stream.flush()
        file = DiskFile(
            Path(stream.name),
            size_bytes=size_bytes,
            calls=SystemCalls(),
            probes=BufferPool(size_bytes=2 * BLOCK_BYTES, most=1),
        )
        refusal = file.refusal
        file.close()
    return refusal


def judge_direct_reads(refusal: str) -> Finding:
    """Judge why direct reads are refused; empty when they work."""
    if not refusal:
        return Finding(area=_AREA, name="direct reads", state=State.OK, found="O_DIRECT works")
    return Finding(
        area=_AREA,
        name="direct reads",
        state=State.DEGRADED,
        found=refusal,
        effect="reads go through the page cache, which costs a copy and memory beside the expert memory",
        remedy="put the model on a file system with O_DIRECT (ext4, xfs, btrfs)",
    )
