"""The text every Python installation carries: the standard library's own sources, split by file.

A file is held out when the hash of its relative path says so, hence the split is the same on every machine
and for every Python version, and no line of a held-out file is ever trained on.
"""

from __future__ import annotations

import hashlib
import logging
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

log = logging.getLogger(__name__)

# Tests are repetitive, `encodings` holds generated tables, the rest is not the standard library.
EXCLUDED_FOLDERS = frozenset(
    {"site-packages", "dist-packages", "test", "tests", "idle_test", "encodings", "__pycache__"}
)
# Generated when Python was built: they hold the paths of the machine that built it.
EXCLUDED_PREFIXES = ("_sysconfigdata", "config-")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """One source file of the standard library.

    Attributes
    ----------
    name : str
        Path relative to the standard library, with ``/`` between the parts.
    text : str
        The whole file.
    """

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """Standard-library sources, split by file; both parts are sorted by name."""

    train: tuple[SourceFile, ...]
    heldout: tuple[SourceFile, ...]

    def __post_init__(self) -> None:
        both = {file.name for file in self.train} & {file.name for file in self.heldout}
        if both:
            raise ValueError(f"expected disjoint parts, got {len(both)} files in both, e.g. {min(both)!r}")
        if not self.train or not self.heldout:
            raise ValueError(
                "expected at least one file in each part, got "
                f"{len(self.train)} to train on and {len(self.heldout)} held out"
            )


def is_heldout(name: str, *, fraction: float, seed: int) -> bool:
    """Say whether the file of this relative path belongs to the held-out part.

    Parameters
    ----------
    name : str
        Path relative to the standard library, with ``/`` between the parts.
    fraction : float
        Expected share of files held out, in (0, 1).
    seed : int
        Another seed, another split.
    """
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < fraction * 2**64


def stdlib_names(root: Path | None = None) -> list[str]:
    """List the relative paths of the usable ``.py`` files under `root`, sorted.

    Links are skipped: some distributions link configuration from outside the library into it.
    """
    root = root or Path(sysconfig.get_paths()["stdlib"])
    names = (path.relative_to(root) for path in root.rglob("*.py") if not path.is_symlink())
    return sorted(name.as_posix() for name in names if _usable(name.parts))


def load_corpus(
    *,
    root: Path | None = None,
    heldout_fraction: float = 0.05,
    split_seed: int = 0,
    train_bytes: int | None = None,
) -> Corpus:
    """Read the standard library's sources and split them by file.

    Parameters
    ----------
    root : Path, optional
        Folder of sources; by default this interpreter's standard library.
    heldout_fraction : float
        Expected share of files held out, in (0, 1).
    split_seed : int
        Seed of the split.
    train_bytes : int, optional
        Stop adding training files beyond this many characters (for small test recipes).

    Raises
    ------
    ValueError
        When a part would be empty (a stripped Python installation without sources, for example).
    """
    if not 0.0 < heldout_fraction < 1.0:
        raise ValueError(f"expected heldout_fraction in (0, 1), got {heldout_fraction}")
    root = root or Path(sysconfig.get_paths()["stdlib"])
    held: list[SourceFile] = []
    train: list[SourceFile] = []
    for file in _read(root, stdlib_names(root)):
        part = held if is_heldout(file.name, fraction=heldout_fraction, seed=split_seed) else train
        part.append(file)
    return Corpus(train=tuple(_limited(train, train_bytes)), heldout=tuple(held))


def _usable(parts: tuple[str, ...]) -> bool:
    if EXCLUDED_FOLDERS.intersection(parts[:-1]):
        return False
    return not any(part.startswith(EXCLUDED_PREFIXES) for part in parts)


def _read(root: Path, names: Iterable[str]) -> Iterable[SourceFile]:
    for name in names:
        try:
            text = (root / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            log.info("skipped %s: not UTF-8", name)
            continue
        if text.strip():
            yield SourceFile(name=name, text=text)


def _limited(files: list[SourceFile], limit: int | None) -> list[SourceFile]:
    if limit is None:
        return files
    kept: list[SourceFile] = []
    total = 0
    for file in files:
        if total >= limit:
            break
        kept.append(file)
        total += len(file.text)
    return kept
